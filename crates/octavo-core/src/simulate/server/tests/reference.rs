//! The server compared with one of searched lists, and sums that must agree.

use proptest::{collection::vec, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;

/// A whole server with lists that are searched, without readahead and rings: shared buffers as a clock sweep, the page
/// cache as two lists (as long as memory is below 1 GiB).
fn naive(
    accesses: &[(u32, u64)],
    buffers: usize,
    block: u64,
    pages: usize,
    page: u64,
) -> (u64, u64, u64) {
    type Place = (u32, u64);
    let mut sweep: Vec<(Place, u8)> = Vec::new();
    let (mut inactive, mut active) = (Vec::<(Place, bool)>::new(), Vec::<(Place, bool)>::new());
    let mut shadows: Vec<(Place, usize)> = Vec::new();
    let (mut age, mut refaulted) = (0, false);
    let (mut hits, mut requests, mut bytes) = (0, 0, 0);
    let mut last_pages: Vec<Place> = Vec::new();
    for &(relation, number) in accesses {
        let wanted = (relation, number * OWN / block);
        if let Some(entry) = sweep.iter_mut().find(|entry| entry.0 == wanted) {
            entry.1 = (entry.1 + 1).min(5);
            hits += 1;
            continue;
        }
        if sweep.len() == buffers {
            loop {
                let (out, usage) = sweep.remove(0);
                if usage == 0 {
                    break;
                }
                sweep.push((out, usage - 1));
            }
        }
        sweep.push((wanted, 1));
        let offset = wanted.1 * block;
        let mut missing = 0;
        let range: Vec<Place> = (offset / page..(offset + block).div_ceil(page))
            .map(|index| (relation, index))
            .collect();
        // Missing neighbours are one request; then all pages are accessed, starting with the first.
        let is_there = |lists: [&Vec<(Place, bool)>; 2], place: Place| {
            lists
                .iter()
                .any(|list| list.iter().any(|entry| entry.0 == place))
        };
        for (at, &first) in range.iter().enumerate() {
            if !is_there([&inactive, &active], first) {
                for &place in &range[at..] {
                    if is_there([&inactive, &active], place) {
                        requests += u64::from(missing > 0);
                        missing = 0;
                        continue;
                    }
                    missing += 1;
                    bytes += page;
                    if inactive.len() + active.len() == pages {
                        let mut force = refaulted || inactive.is_empty();
                        refaulted = false;
                        while force || inactive.len() < active.len() {
                            force = false;
                            if active.is_empty() {
                                break;
                            }
                            inactive.push(active.remove(0));
                        }
                        let (out, _) = inactive.remove(0);
                        shadows.retain(|entry| entry.0 != out);
                        shadows.push((out, age));
                        age += 1;
                    }
                    let shadow = shadows.iter().position(|entry| entry.0 == place);
                    let then = shadow.map(|at| shadows.remove(at).1);
                    if then.is_some_and(|then| age - then <= active.len()) {
                        age += 1;
                        refaulted = true;
                        active.push((place, false));
                    } else {
                        inactive.push((place, false));
                    }
                }
                requests += u64::from(missing > 0);
                missing = 0;
            }
            if at == 0 && last_pages.contains(&first) {
                continue; // the relation's last read ended in it
            }
            if let Some(entry) = active.iter_mut().find(|entry| entry.0 == first) {
                entry.1 = true;
            } else if let Some(at) = inactive.iter().position(|entry| entry.0 == first) {
                if inactive[at].1 {
                    inactive.remove(at);
                    active.push((first, false));
                    age += 1;
                } else {
                    inactive[at].1 = true;
                }
            }
        }
        last_pages.retain(|place| place.0 != relation);
        last_pages.extend(range.last());
    }
    (hits, requests, bytes)
}

proptest! {
    #[test]
    fn a_server_is_as_one_of_lists(
        accesses in vec((1_u32..4, prop_oneof![0_u64..20, 0_u64..200]), 0..500),
        buffers in 1_usize..30, level in 0_u32..3, pages in 40_usize..90, page_bits in 12_u32..14,
    ) {
        let page = 1_u64 << page_bits;
        let memory = pages as u64 * page;
        let traced: Vec<_> = accesses
            .iter()
            .map(|&(relation, block)| Some(access(1, relation, block, Kind::Read, Strategy::Normal)))
            .collect();
        let one = server(Blocks::Merged(level), buffers as u64, 0, Some(kernel(memory, page, 0)));
        let found = after(one, &traced);
        let expected = naive(&accesses, buffers, OWN << level, pages, page);
        prop_assert_eq!((found.buffers().counts().hits, reads(&found).0, reads(&found).1), expected);
    }

    #[test]
    fn what_is_counted_adds_up(
        accesses in vec((0_u32..3, 1_u32..3, 0_u64..300, 0_u8..4, 0_u8..4), 0..400),
        buffers in 1_u64..40, shape in 0_u8..5, pages in 1_u64..200, page_bits in 12_u32..17, readahead in 0_u64..64,
    ) {
        let blocks = match shape {
            0 => Blocks::Merged(0),
            1 => Blocks::Merged(2),
            2 => Blocks::Concentrated(2),
            3 => Blocks::Concentrated(8),
            _ => Blocks::Spread { parts: 4, turns: Vec::new() },
        };
        let page = 1_u64 << page_bits;
        let block = blocks.size(OWN);
        let traced: Vec<_> = accesses
            .iter()
            .map(|&(backend, relation, number, kind, strategy)| {
                Some(access(backend, relation, number, Kind::of(kind), Strategy::of(strategy << 4)))
            })
            .collect();
        let found = after(server(blocks, buffers, 128 * KB, Some(kernel(pages * page, page, readahead * page))), &traced);
        let (counts, requests) = (found.buffers().counts(), found.requests());
        let kernel = found.kernel().unwrap();
        prop_assert_eq!(requests.read_bytes, counts.reads * block);
        prop_assert_eq!(requests.writes, counts.dirty_evictions + counts.checkpoint_writes + counts.writer_writes);
        prop_assert!(kernel.counts().reads_from_cache <= requests.reads);
        prop_assert!(kernel.counts().pages_missing <= kernel.counts().pages_wanted);
        prop_assert_eq!(kernel.device().read_bytes % page, 0);
        let at_most = kernel.counts().pages_missing + kernel.counts().pages_read_to_write;
        if readahead == 0 {
            prop_assert!(kernel.device().read_bytes / page >= at_most);
        }
        prop_assert!(!kernel.has_too_many());
    }
}
