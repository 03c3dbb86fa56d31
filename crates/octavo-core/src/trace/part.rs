use std::io::{Read, Write};

use super::{Accesses, Error, Event, EventKind, Fact, Item, Missing, Reader, Writer};

/// The part of a trace that is kept. Times are microseconds since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first time that is kept.
    pub from: u64,
    /// The first time that is no longer kept.
    pub until: u64,
    /// Accesses of other file numbers are left out.
    pub relation: Option<u32>,
}

/// Properties with this prefix describe the time from a checkpoint to the trace's beginning.
const BEFORE: &str = "checkpoint_";
/// The property with the file number, in a part that contains the accesses of only one.
const CUT_RELATION: &str = "cut_relation";

/// Writes a part of a trace. Facts are kept; events, pauses and WAL only if their whole time is, and facts on the time
/// before the trace only if its beginning is. Times are unchanged. What is missing in the source is written as lost,
/// and returned.
///
/// # Errors
/// An error in reading or writing.
pub fn cut<R: Read, W: Write>(
    reader: &mut Reader<R>,
    create: impl FnOnce(u32) -> Result<Writer<W>, Error>,
    part: Part,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<(Writer<W>, Missing), Error> {
    let mut accesses = Accesses::default();
    let mut create = Some(create);
    let mut writer = None;
    let mut known = 0;
    let keeps = |time: u64| time >= part.from && time < part.until;
    while let Some(item) = reader.next(&mut accesses)? {
        if let Some(create) = create.take() {
            let mut new = create(reader.page_size().unwrap_or(0))?;
            if let Some(relation) = part.relation {
                new.fact(&Fact::Property(CUT_RELATION.into(), relation.to_string()))?;
            }
            writer = Some(new);
        }
        let Some(into) = writer.as_mut() else { break };
        match item {
            Item::Facts(facts) => {
                for fact in facts {
                    let keep = match &fact {
                        // A pause that nothing follows is no part of the time between accesses.
                        Fact::Event(event) if event.kind == EventKind::Pause => {
                            keeps(event.time) && keeps(event.time.saturating_add(event.count))
                        }
                        Fact::Event(event) => keeps(event.time),
                        Fact::Wal(wal) => wal.from >= part.from && wal.until <= part.until,
                        Fact::Property(name, _) => part.from == 0 || !name.starts_with(BEFORE),
                        _ => true,
                    };
                    if keep {
                        if matches!(fact, Fact::Event(_)) {
                            into.flush()?; // so that it stays after what happened before it
                        }
                        into.fact(&fact)?;
                    }
                }
            }
            Item::Accesses => {
                let missing = reader.missing().accesses;
                if missing > known {
                    let time = accesses.time.first().copied().unwrap_or(0);
                    if keeps(time) {
                        into.fact(&Fact::Event(Event {
                            time,
                            kind: EventKind::Lost,
                            count: missing - known,
                        }))?;
                    }
                    known = missing;
                }
                for access in accesses.iter() {
                    if keeps(access.time)
                        && part
                            .relation
                            .is_none_or(|wanted| access.stream.relation == wanted)
                    {
                        into.push(&access)?;
                    }
                }
            }
        }
        if !goes_on(into.accesses()) {
            break;
        }
    }
    // A trace without contents is valid, too.
    let writer = match (writer, create, reader.page_size()) {
        (Some(writer), ..) => writer,
        (None, Some(create), Some(size)) => create(size)?,
        _ => return Err(Error::NoTrace),
    };
    Ok((writer, reader.missing()))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Access, summarize, test_trace::traced},
        *,
    };

    #[test]
    fn a_part_of_an_empty_trace_is_empty() {
        let bytes = Writer::new(Vec::new(), 4096).unwrap().finish().unwrap();
        let part = Part {
            from: 0,
            until: 60,
            relation: None,
        };
        let create = |size: u32| Writer::new(Vec::new(), size.into());
        let (writer, _) = cut(&mut Reader::new(&bytes[..]), create, part, &mut |_| true).unwrap();
        assert_eq!(writer.finish().unwrap(), bytes);
    }

    #[test]
    fn a_part_that_ends_in_a_pause_has_none() {
        let mut writer = Writer::new(Vec::new(), 4096).unwrap();
        let access = |time| Access {
            time,
            ..Access::default()
        };
        writer.push(&access(10)).unwrap();
        writer.flush().unwrap();
        let pause = Event {
            time: 10,
            kind: EventKind::Pause,
            count: 20,
        };
        writer.fact(&Fact::Event(pause)).unwrap();
        writer.push(&access(30)).unwrap();
        let bytes = writer.finish().unwrap();
        let pauses = |until| {
            let part = Part {
                from: 0,
                until,
                relation: None,
            };
            let create = |size: u32| Writer::new(Vec::new(), size.into());
            let (writer, _) =
                cut(&mut Reader::new(&bytes[..]), create, part, &mut |_| true).unwrap();
            let found = writer.finish().unwrap();
            let found = summarize(&mut Reader::new(&found[..]), &mut |_| true).unwrap();
            found.events.get(&EventKind::Pause).copied()
        };
        assert_eq!((pauses(30), pauses(31)), (None, Some((1, 20))));
    }

    #[test]
    fn a_part_is_what_is_within_its_times() {
        let bytes = traced();
        let part = Part {
            from: 40,
            until: 60,
            relation: Some(2),
        };
        let create = |size: u32| Writer::new(Vec::new(), size.into());
        let (writer, missing) =
            cut(&mut Reader::new(&bytes[..]), create, part, &mut |_| true).unwrap();
        assert_eq!(missing, Missing::default());
        let bytes = writer.finish().unwrap();
        let found = summarize(&mut Reader::new(&bytes[..]), &mut |_| true).unwrap();
        assert_eq!(found.times, Some((40, 56)));
        assert_eq!(found.accesses, [5, 0, 0, 0, 0]);
        assert_eq!(found.events[&EventKind::Transactions], (1, 5));
        assert_eq!(
            found.facts,
            [
                Fact::Property(CUT_RELATION.into(), "2".into()),
                Fact::Setting("shared_buffers".into(), "128MB".into())
            ]
        );
        // The event at 50 is still after the access at that time, and before the next one.
        let mut accesses = Accesses::default();
        let mut reader = Reader::new(&bytes[..]);
        let mut before_event = None;
        let mut last = 0;
        while let Some(item) = reader.next(&mut accesses).unwrap() {
            match item {
                Item::Facts(facts) => {
                    if facts.iter().any(|fact| matches!(fact, Fact::Event(_))) {
                        before_event = Some(last);
                    }
                }
                Item::Accesses => last = accesses.time.last().copied().unwrap(),
            }
        }
        assert_eq!((before_event, last), (Some(48), 56));
    }
}
