/// The most accesses in a frame.
pub const MOST_IN_A_BLOCK: usize = 65_536;

/// A fork of a relation, in which block numbers count. In a trace of block devices `space` and `database` are the
/// device's numbers (major, minor); in a trace of files `relation` is the file's number.
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

/// What the access did with the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Read: from the cache or into it.
    #[default]
    Read,
    /// A new page at the relation's end.
    Extend,
    /// Changed.
    Change,
    /// Changed, with a full-page image in the WAL.
    FullPageImage,
    /// Read by a backend that had already pinned it, which PostgreSQL does not count as another use of the buffer.
    Pin,
}

/// How PostgreSQL chose the buffer (BufferAccessStrategy), if the trace contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The normal strategy.
    #[default]
    Normal,
    /// A sequential scan; a ring is used when the relation is larger than a quarter of shared_buffers.
    BulkRead,
    /// COPY, CREATE TABLE AS and similar commands.
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

    /// From the lower half of a byte; unknown kinds of later versions count as a read.
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

    /// Whether it follows an access of the same page.
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

    /// From the upper half of a byte.
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
    /// The process: any number that differs between processes.
    pub backend: u32,
    /// The stream.
    pub stream: Stream,
    /// The page's number in the stream.
    pub block: u64,
    /// What the access did.
    pub kind: Kind,
    /// How the buffer was chosen.
    pub strategy: Strategy,
}

/// The accesses of one frame, by columns. `stream` and `backend` are indexes into the tables `streams` and `backends`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Every stream that occurs.
    pub streams: Vec<Stream>,
    /// Every backend that occurs.
    pub backends: Vec<u32>,
    /// Microseconds since the trace began.
    pub time: Vec<u64>,
    /// Indexes into `backends`.
    pub backend: Vec<u32>,
    /// Indexes into `streams`.
    pub stream: Vec<u32>,
    /// Block numbers.
    pub block: Vec<u64>,
    /// Kind in the lower half, strategy in the upper.
    pub how: Vec<u8>,
}

impl Accesses {
    /// The number of accesses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// One of them. Panics if the index is out of range.
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
