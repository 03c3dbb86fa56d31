//! Jobs that are refused.

use super::*;

#[test]
fn a_job_that_makes_no_sense_is_refused() {
    let scratch = Scratch::new("refused");
    let good = scratch.job();
    let refused = [
        Job {
            block: 1000,
            ..good.clone()
        },
        Job {
            block: 0,
            ..good.clone()
        },
        Job {
            threads: 0,
            ..good.clone()
        },
        Job {
            method: Method::Ring { depth: 0 },
            ..good.clone()
        },
        Job {
            method: Method::Advised {
                distance: 99_999_999_999,
            },
            ..good.clone()
        },
        Job {
            method: Method::Ring { depth: 32_768 },
            joining: Joining::Coalesced { most: 16, hole: 0 },
            ..good.clone()
        },
        Job {
            method: Method::Vectored,
            joining: Joining::Coalesced {
                most: 1025,
                hole: 0,
            },
            ..good.clone()
        },
        Job {
            method: Method::Vectored,
            write: true,
            ..good.clone()
        },
        Job {
            joining: Joining::Coalesced { most: 4, hole: 1 },
            write: true,
            ..good.clone()
        },
        Job {
            method: Method::CacheFirst,
            direct: true,
            ..good.clone()
        },
        Job {
            joining: Joining::Run { most: 0 },
            ..good.clone()
        },
        Job {
            once: false,
            ..good
        },
    ];
    for job in refused {
        let error = run(&job, &mut |_| true).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
    }
}
