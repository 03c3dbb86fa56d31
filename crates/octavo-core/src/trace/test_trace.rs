use super::{Access, Event, EventKind, Fact, Kind, Strategy, Stream, Writer};

/// 100 accesses, one per microsecond, with two facts and two events.
pub(super) fn traced() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 8192).unwrap();
    writer
        .fact(&Fact::Setting("shared_buffers".into(), "128MB".into()))
        .unwrap();
    writer
        .fact(&Fact::Property("checkpoint_seconds".into(), "7".into()))
        .unwrap();
    for time in 0..100 {
        let relation = if time % 4 == 0 { 2 } else { 1 };
        let kind = if time % 10 == 9 {
            Kind::Change
        } else {
            Kind::Read
        };
        let stream = Stream {
            relation,
            ..Stream::default()
        };
        let access = Access {
            time,
            backend: time as u32 % 3,
            stream,
            block: time,
            kind,
            strategy: Strategy::Normal,
        };
        writer.push(&access).unwrap();
        if time % 50 == 0 {
            writer.flush().unwrap();
            writer
                .fact(&Fact::Event(Event {
                    time,
                    kind: EventKind::Transactions,
                    count: 5,
                }))
                .unwrap();
        }
    }
    writer.finish().unwrap()
}
