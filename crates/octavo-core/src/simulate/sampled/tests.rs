use super::{super::StackDistances, *};

/// Pages of a skewed distribution, as a power of a uniform one.
pub(crate) fn skewed(count: usize, pages: f64) -> impl Iterator<Item = u32> {
    let mut state = 88_172_645_463_325_252_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        (uniform.powi(3) * pages) as u32
    })
}

fn curves(rate: f64, count: usize, pages: f64) -> (Curve, Curve) {
    let mut exact = StackDistances::new();
    let mut sampled = SampledDistances::new(Filter::new(rate, 1));
    let accesses: Vec<u32> = skewed(count, pages).collect();
    for batch in accesses.chunks(50_000) {
        sampled.look_ahead(batch.iter().copied());
        for &page in batch {
            exact.access(page);
            sampled.access(page);
        }
    }
    (exact.curve(count as u64), sampled.curve(count as u64))
}

#[test]
fn a_sample_is_near_the_truth_and_knows_how_near() {
    let (exact, sampled) = curves(0.1, 300_000, 20_000.0);
    for capacity in [100, 200, 500, 1000, 5000, 10_000, 20_000] {
        let error = (exact.hit_ratio(capacity) - sampled.hit_ratio(capacity)).abs();
        assert!(error < 0.03, "{capacity}: {error}");
        assert!(
            error < 4.0 * sampled.standard_error(capacity) + 0.001,
            "{capacity}: {error}"
        );
        assert!(sampled.standard_error(capacity) < 0.03);
    }
    assert!((sampled.pages() / exact.pages() - 1.0).abs() < 0.05);
}

#[test]
fn parts_are_disjoint_and_together_the_sample() {
    for (rate, parts) in [(1.0, 7), (0.3, 4)] {
        let whole = Filter::new(rate, 5);
        let each: Vec<Filter> = (0..parts)
            .map(|part| Filter::part(rate, 5, part, parts))
            .collect();
        for page in 0..100_000 {
            let taken = each
                .iter()
                .filter(|filter| filter.takes(page).is_some())
                .count();
            assert_eq!(taken, usize::from(whole.takes(page).is_some()), "{page}");
        }
        let sum: f64 = each.iter().map(|filter| filter.rate()).sum();
        assert!((sum - rate).abs() < 1e-6);
    }
}

#[test]
fn the_mean_of_parts_is_near_the_truth() {
    let accesses: Vec<u32> = skewed(300_000, 20_000.0).collect();
    let mut exact = StackDistances::new();
    let parts = 8;
    let mut each: Vec<SampledDistances> = (0..parts)
        .map(|part| SampledDistances::new(Filter::part(1.0, 1, part, parts)))
        .collect();
    for batch in accesses.chunks(50_000) {
        for one in &mut each {
            one.look_ahead(batch.iter().copied());
        }
        for &page in batch {
            exact.access(page);
            for one in &mut each {
                one.access(page);
            }
        }
    }
    let count = accesses.len() as u64;
    let exact = exact.curve(count);
    let curves: Vec<Curve> = each.iter().map(|one| one.curve(count)).collect();
    for capacity in [200, 1000, 5000, 20_000] {
        let mean = curves
            .iter()
            .map(|curve| curve.hit_ratio(capacity))
            .sum::<f64>()
            / f64::from(parts);
        assert!(
            (mean - exact.hit_ratio(capacity)).abs() < 0.005,
            "{capacity}: {mean}"
        );
    }
}

#[test]
fn a_rate_of_one_is_exact_but_for_the_bins() {
    let (exact, sampled) = curves(1.0, 20_000, 900.0);
    for capacity in 0..1000 {
        assert!((exact.hit_ratio(capacity) - sampled.hit_ratio(capacity)).abs() < 0.001);
    }
}

#[test]
fn bins_follow_each_other() {
    for distance in [
        0,
        1,
        63,
        64,
        65,
        127,
        128,
        129,
        1000,
        65_535,
        1 << 20,
        (1 << 31) - 1,
        1 << 31,
    ] {
        let bin = scale::bin(distance);
        assert!(
            scale::start(bin) <= distance.into() && u64::from(distance) < scale::start(bin + 1),
            "{distance}"
        );
        assert!(bin < scale::BINS);
    }
}
