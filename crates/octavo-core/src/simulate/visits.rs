use super::feed::is_change;
use crate::trace::{Kind, Strategy};

/// A page: its stream and its number there.
type Page = (u32, u64);

/// The visits and scans of a backend so far.
#[derive(Clone, Default)]
struct Seen {
    visited: Option<Page>,
    visits: u32,
    scanned: Option<Page>,
    scans: u32,
}

/// By backend: how many pages it has visited, and how many scans it has begun. Successive accesses of one page are one
/// visit; scans and new pages are none. A scan begins in another relation, or at an earlier block.
#[derive(Default)]
pub(super) struct Visits(Vec<Seen>);

impl Visits {
    /// The numbers of the visit and of the scan that an access belongs to, counted by backend.
    #[inline]
    pub(super) fn of(&mut self, backend: u32, page: Page, how: u8) -> (u32, u32) {
        let place = backend as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, Seen::default());
        }
        let seen = &mut self.0[place];
        if !is_change(how) {
            match Strategy::of(how) {
                Strategy::Normal if Kind::of(how) != Kind::Extend => {
                    let is_new = seen.visited.replace(page) != Some(page);
                    seen.visits = seen.visits.wrapping_add(u32::from(is_new));
                }
                Strategy::BulkRead => {
                    let goes_on = seen
                        .scanned
                        .replace(page)
                        .is_some_and(|(stream, block)| stream == page.0 && block <= page.1);
                    seen.scans = seen.scans.wrapping_add(u32::from(!goes_on));
                }
                _ => {}
            }
        }
        (seen.visits, seen.scans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_whatever_is_between_its_blocks() {
        let mut visits = Visits::default();
        let scan = Strategy::BulkRead.number() << 4;
        let mut of = |backend, page, how| visits.of(backend, page, how);
        assert_eq!(of(1, (7, 0), scan), (0, 1));
        assert_eq!(of(1, (3, 900), 0), (1, 1));
        assert_eq!(of(2, (7, 0), scan), (0, 1));
        assert_eq!(of(1, (7, 0), scan), (1, 1));
        assert_eq!(of(1, (7, 500), scan), (1, 1));
        assert_eq!(of(1, (7, 0), scan), (1, 2), "from its start again");
        assert_eq!(of(1, (8, 5), scan), (1, 3), "another relation");
    }
}
