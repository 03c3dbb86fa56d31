use super::feed::is_change;
use crate::trace::{Kind, Strategy};

/// A page: its stream and its number there.
type Page = (u32, u64);

/// By backend: how many pages it has visited. Accesses of one page in a row are one visit; scans and new pages are none.
#[derive(Default)]
pub(super) struct Visits(Vec<(Option<Page>, u32)>);

impl Visits {
    /// The number of the visit that an access belongs to, counted by backend.
    #[inline]
    pub(super) fn of(&mut self, backend: u32, page: Page, how: u8) -> u32 {
        let place = backend as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, (None, 0));
        }
        let (last, number) = &mut self.0[place];
        let is_visit = Strategy::of(how) == Strategy::Normal
            && Kind::of(how) != Kind::Extend
            && !is_change(how);
        if is_visit && last.replace(page) != Some(page) {
            *number = number.wrapping_add(1);
        }
        *number
    }
}
