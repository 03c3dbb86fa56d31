use proptest::{collection::vec, prelude::*};

use super::{
    super::{Kind, Strategy as Ring},
    *,
};

pub(crate) fn accesses(most: usize) -> impl proptest::strategy::Strategy<Value = Vec<Access>> {
    let near = prop_oneof![8 => 0_u64..300, 1 => any::<u64>()];
    let access = (
        prop_oneof![8 => 0_u64..2000, 1 => any::<u64>()],
        0_u32..400,
        0_u32..300,
        0_u8..2,
        near,
        0_u8..5,
        0_u8..4,
    );
    vec(access, 0..most).prop_map(|all| {
        all.into_iter()
            .map(
                |(time, backend, relation, fork, block, kind, ring)| Access {
                    time,
                    backend: if time % 3 == 0 { backend } else { backend % 2 },
                    stream: Stream {
                        space: 1663,
                        database: 5,
                        relation: if time % 5 == 0 { relation } else { 1 },
                        fork,
                    },
                    block,
                    kind: Kind::of(kind),
                    strategy: Ring::of(ring << 4),
                },
            )
            .collect()
    })
}

proptest! {
    #[test]
    fn accesses_come_back(accesses in accesses(1500)) {
        let mut gatherer = Gatherer::new();
        let mut found = Accesses::default();
        for _ in 0..2 {
            for access in &accesses {
                gatherer.push(access);
            }
            let payload = gatherer.take();
            decode(&payload, accesses.len() as u32, &mut found).unwrap();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), accesses.clone());
        }
    }

    #[test]
    fn any_payload_is_read_or_refused(payload in vec(any::<u8>(), 0..400), count in 0_u32..70_000) {
        let _ = decode(&payload, count, &mut Accesses::default());
    }

    #[test]
    fn any_damaged_payload_is_read_or_refused(
        accesses in accesses(300), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), count in 0_u32..400
    ) {
        let mut gatherer = Gatherer::new();
        accesses.iter().for_each(|access| gatherer.push(access));
        let mut payload = gatherer.take();
        for (place, byte) in changes {
            let place = place.index(payload.len());
            payload[place] = byte;
        }
        let _ = decode(&payload, count, &mut Accesses::default());
    }
}
