/// How many accesses a frame holds at most.
pub const MOST_IN_A_BLOCK: usize = 65_536;

/// A fork of a relation: what block numbers count in. In a trace of block devices `space` and `database` are the numbers
/// of one (major, minor); in one of files `relation` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream {
    /// The tablespace's OID.
    pub space: u32,
    /// The database's OID.
    pub database: u32,
    /// The relation's file number (pg_class.relfilenode).
    pub relation: u32,
    /// 0 main, 1 free space map, 2 visibility map, 3 init.
    pub fork: u8,
}

/// What was done with the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It was read: from the cache or into it.
    #[default]
    Read,
    /// It is a new page at the relation's end.
    Extend,
    /// It was changed.
    Change,
    /// It was changed, and the whole page went into the WAL.
    FullPageImage,
    /// It was read by a backend that had it pinned already, which PostgreSQL counts as no further use of the buffer.
    Pin,
}

/// How PostgreSQL chose the buffer (BufferAccessStrategy), where the trace says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The ordinary one.
    #[default]
    Normal,
    /// A sequential scan; a ring is used when the relation is larger than a quarter of shared_buffers.
    BulkRead,
    /// COPY, CREATE TABLE AS and the like.
    BulkWrite,
    /// VACUUM.
    Vacuum,
}

impl Kind {
    /// Its number in files.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Extend => 1,
            Self::Change => 2,
            Self::FullPageImage => 3,
            Self::Pin => 4,
        }
    }

    /// Of the lower half of a byte; what a later version may add counts as a read.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        match byte & 15 {
            1 => Self::Extend,
            2 => Self::Change,
            3 => Self::FullPageImage,
            4 => Self::Pin,
            _ => Self::Read,
        }
    }

    /// Whether the page is only read.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Pin)
    }

    /// Whether it follows an access that brought the page.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Change | Self::FullPageImage)
    }
}

impl Strategy {
    /// Its number in files.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::BulkRead => 1,
            Self::BulkWrite => 2,
            Self::Vacuum => 3,
        }
    }

    /// Of the upper half of a byte.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        match byte >> 4 {
            1 => Self::BulkRead,
            2 => Self::BulkWrite,
            3 => Self::Vacuum,
            _ => Self::Normal,
        }
    }
}

/// One access to one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Microseconds since the trace began.
    pub time: u64,
    /// Who: any number that differs between processes.
    pub backend: u32,
    /// Where.
    pub stream: Stream,
    /// Which page of the stream.
    pub block: u64,
    /// What was done.
    pub kind: Kind,
    /// How the buffer was chosen.
    pub strategy: Strategy,
}

/// The accesses of one frame, by columns. `stream` and `backend` are places in the tables `streams` and `backends`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Every stream that occurs.
    pub streams: Vec<Stream>,
    /// Every backend that occurs.
    pub backends: Vec<u32>,
    /// Microseconds since the trace began.
    pub time: Vec<u64>,
    /// Places in `backends`.
    pub backend: Vec<u32>,
    /// Places in `streams`.
    pub stream: Vec<u32>,
    /// Block numbers.
    pub block: Vec<u64>,
    /// Kind in the lower half, strategy in the upper.
    pub how: Vec<u8>,
}

impl Accesses {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// One of them. Panics when there are not so many.
    #[must_use]
    pub fn get(&self, place: usize) -> Access {
        Access {
            time: self.time[place],
            backend: self.backends[self.backend[place] as usize],
            stream: self.streams[self.stream[place] as usize],
            block: self.block[place],
            kind: Kind::of(self.how[place]),
            strategy: Strategy::of(self.how[place]),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Access> + '_ {
        (0..self.len()).map(|place| self.get(place))
    }

    pub(crate) fn clear(&mut self) {
        self.streams.clear();
        self.backends.clear();
        self.time.clear();
        self.backend.clear();
        self.stream.clear();
        self.block.clear();
        self.how.clear();
    }
}
