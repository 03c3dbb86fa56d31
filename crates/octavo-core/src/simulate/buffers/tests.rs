use proptest::{collection::vec, prelude::*};

use super::*;

const NORMAL: u8 = 0;
const SCAN: u8 = 1 << 4;
const EXTEND: u8 = 1;
const CHANGE: u8 = 2;
const PIN: u8 = 4;

fn manager(buffers: u64) -> BufferManager {
    BufferManager::new(buffers * 8192, 8192, Rings::default(), None)
}

/// The clock sweep with lists: buffers as (page, usage), the hand at the first one.
fn naive(buffers: usize, accesses: &[(u32, bool)]) -> Vec<bool> {
    let mut list: Vec<(u32, u8)> = Vec::new();
    accesses
        .iter()
        .map(|&(page, is_pinned)| {
            if let Some(entry) = list.iter_mut().find(|entry| entry.0 == page) {
                entry.1 = (entry.1 + u8::from(!is_pinned)).min(5);
                return true;
            }
            if list.len() == buffers {
                loop {
                    let (out, usage) = list.remove(0);
                    if usage == 0 {
                        break;
                    }
                    list.push((out, usage - 1));
                }
            }
            list.push((page, 1));
            false
        })
        .collect()
}

proptest! {
    #[test]
    fn one_backend_sweeps_as_defined(
        accesses in vec((0_u32..40, any::<bool>()), 0..600),
        buffers in 1_u64..30,
    ) {
        let mut manager = manager(buffers);
        let mut hits = 0;
        let expected = naive(buffers as usize, &accesses);
        for (&(page, is_pinned), &expected) in accesses.iter().zip(&expected) {
            manager.access(page, 0, 0, if is_pinned { PIN } else { NORMAL }, 0);
            hits += u64::from(expected);
            prop_assert_eq!(manager.counts().hits, hits);
        }
        let counts = manager.counts();
        prop_assert_eq!(counts.hits + counts.reads, accesses.len() as u64);
    }
}

#[test]
fn a_page_survives_as_many_rounds_as_it_was_used() {
    let is_there_after = |pages: u32| {
        let mut manager = manager(4);
        for _ in 0..9 {
            manager.access(0, 0, 0, NORMAL, 0);
        }
        assert_eq!(manager.usage_counts()[5], 1);
        for page in 1..=pages {
            manager.access(page, 0, 0, NORMAL, 0);
        }
        manager.buffer_of[0] != NONE
    };
    // Three pages get buffers that were never used; then the hand makes two rounds for every three pages.
    assert!(is_there_after(9));
    assert!(!is_there_after(10));
}

#[test]
fn a_backend_that_goes_on_to_a_page_outside_the_sample_lets_go_of_its_last() {
    let filter = Filter::new(0.5, 1);
    let (inside, outside): (Vec<u32>, Vec<u32>) =
        (0..100).partition(|&page| filter.takes(page).is_some());
    let mut manager = BufferManager::new(4 * 8192, 8192, Rings::default(), Some(filter));
    assert_eq!(manager.buffers(), 2);
    let accesses = [
        (1, inside[0]),
        (1, outside[0]),
        (2, inside[1]),
        (2, inside[2]),
    ];
    for (backend, page) in accesses {
        manager.access(page, backend, 0, NORMAL, 0);
    }
    // Of two pages that were used as often the hand comes to the first one first.
    assert_eq!(manager.buffer_of[inside[0] as usize], NONE);
    assert_ne!(manager.buffer_of[inside[1] as usize], NONE);
}

#[test]
fn a_scan_of_a_large_table_keeps_to_its_ring() {
    let mut manager = manager(1024);
    for page in 0..100 {
        manager.access(page, 1, 0, NORMAL, 0);
    }
    for page in 1000..5000 {
        manager.access(page, 2, 7, SCAN, 4000);
    }
    // 256 kB are 32 buffers.
    assert_eq!(manager.used(), 132);
    for page in 0..100 {
        manager.access(page, 1, 0, NORMAL, 0);
    }
    assert_eq!(manager.counts().hits, 100);
    // A quarter of shared_buffers is the limit.
    for page in 6000..6256 {
        manager.access(page, 2, 8, SCAN, 256);
    }
    assert_eq!(manager.used(), 132 + 256);
}

#[test]
fn dirty_pages_are_written_once() {
    let mut manager = manager(4);
    for page in 0..4 {
        manager.access(page, 0, 0, NORMAL, 0);
        manager.access(page, 0, 0, CHANGE, 0);
        manager.access(page, 0, 0, CHANGE, 0);
    }
    manager.begin_checkpoint();
    manager.begin_checkpoint();
    assert_eq!(manager.counts().checkpoint_writes, 4);
    assert_eq!(manager.counts().full_page_images, 4);
    manager.access(2, 0, 0, CHANGE, 0);
    manager.access(9, 0, 0, EXTEND, 0);
    for page in 10..20 {
        manager.access(page, 0, 0, NORMAL, 0);
    }
    let counts = manager.counts();
    assert_eq!(
        (
            counts.full_page_images,
            counts.extends,
            counts.dirty_evictions
        ),
        (5, 1, 2)
    );
}

#[test]
fn a_new_page_has_no_image_until_the_next_checkpoint() {
    let mut manager = manager(4);
    let images = |manager: &mut BufferManager| {
        manager.access(7, 0, 0, CHANGE, 0);
        manager.counts().full_page_images
    };
    manager.access(7, 0, 0, EXTEND, 0);
    assert_eq!((images(&mut manager), images(&mut manager)), (0, 0));
    manager.begin_checkpoint();
    assert_eq!((images(&mut manager), images(&mut manager)), (1, 1));
}

#[test]
fn every_buffer_pinned_still_ends() {
    let mut manager = manager(2);
    for page in 0..50 {
        manager.access(page, page, 0, NORMAL, 0);
    }
    assert_eq!(manager.counts().reads, 50);
}

#[test]
fn a_miniature_has_the_hit_ratio_of_the_whole() {
    let pages: Vec<u32> = crate::simulate::sampled::tests::skewed(400_000, 40_000.0).collect();
    let ratio = |filter: Option<Filter>| {
        let mut manager = BufferManager::new(10_000 * 8192, 8192, Rings::default(), filter);
        for &page in &pages {
            manager.access(page, 0, 0, NORMAL, 0);
        }
        manager.hit_ratio(pages.len() as u64)
    };
    let (whole, miniature) = (ratio(None), ratio(Some(Filter::new(0.1, 1))));
    assert!((whole - miniature).abs() < 0.03, "{whole} {miniature}");
}
