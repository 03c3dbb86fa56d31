const NONE: u32 = u32::MAX;

/// The neighbours of pages in lists; a page is in at most one list. 8 bytes per page.
#[derive(Default)]
pub(super) struct Links {
    newer: Vec<u32>,
    older: Vec<u32>,
}

/// A list of pages, from the newest entry to the oldest.
pub(super) struct List {
    newest: u32,
    oldest: u32,
    length: usize,
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            newest: NONE,
            oldest: NONE,
            length: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.length
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

impl Links {
    /// Adds a page that is in no list at the new end of a list.
    pub(super) fn push(&mut self, list: &mut List, page: u32) {
        let place = page as usize;
        if place >= self.newer.len() {
            let length = (place + 1).next_power_of_two();
            self.newer.resize(length, NONE);
            self.older.resize(length, NONE);
        }
        self.newer[place] = NONE;
        self.older[place] = list.newest;
        if list.newest == NONE {
            list.oldest = page;
        } else {
            self.newer[list.newest as usize] = page;
        }
        list.newest = page;
        list.length += 1;
    }

    /// Adds a page that is in no list, but has been in one before, at the old end of a list.
    pub(super) fn push_oldest(&mut self, list: &mut List, page: u32) {
        let place = page as usize;
        self.older[place] = NONE;
        self.newer[place] = list.oldest;
        if list.oldest == NONE {
            list.newest = page;
        } else {
            self.older[list.oldest as usize] = page;
        }
        list.oldest = page;
        list.length += 1;
    }

    /// Removes a page from the list that contains it.
    pub(super) fn remove(&mut self, list: &mut List, page: u32) {
        let (newer, older) = (self.newer[page as usize], self.older[page as usize]);
        if newer == NONE {
            list.newest = older;
        } else {
            self.older[newer as usize] = older;
        }
        if older == NONE {
            list.oldest = newer;
        } else {
            self.newer[older as usize] = newer;
        }
        list.length -= 1;
    }
}
