//! Block lists as text: one block number per line, or a range such as `17-25`; `#` begins a
//! comment.

use super::{Error, pattern::Run};

/// The runs of a list, in the list's order.
///
/// # Errors
///
/// [`Error::Parameter`] with the first line that is not a block or range.
pub fn parse(text: &str) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.split('#').next().unwrap_or_default().trim();
        if !content.is_empty() {
            runs.push(parse_run(content).ok_or_else(|| {
                let shown: String = content.chars().take(LONGEST_SHOWN).collect();
                Error::Parameter(format!(
                    "line {number} of the block list is {shown:?}; write one block number a line, or a range such as \
                     17-25"
                ))
            })?);
        }
    }
    Ok(runs)
}

/// The most characters of an invalid line that the error shows.
const LONGEST_SHOWN: usize = 40;

fn parse_run(content: &str) -> Option<Run> {
    let (first, last) = content.split_once('-').unwrap_or((content, content));
    let first: u64 = first.trim().parse().ok()?;
    let last: u64 = last.trim().parse().ok()?;
    let blocks = last.checked_sub(first)?.checked_add(1)?;
    first.checked_add(blocks)?;
    Some(Run { first, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(runs in proptest::collection::vec((0_u64..1 << 40, 1_u64..99), 0..50)) {
            let runs: Vec<Run> = runs.into_iter().map(|(first, blocks)| Run { first, blocks }).collect();
            let text: String = runs.iter().map(|run| format!("{}-{}\n", run.first, run.end() - 1)).collect();
            prop_assert_eq!(parse(&text).unwrap(), runs);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a\\-# \n]{0,60}") {
            match parse(&text) {
                Ok(runs) => prop_assert!(runs.iter().all(|run| run.end() > run.first)),
                Err(error) => prop_assert!(error.to_string().starts_with("line ")),
            }
        }
    }

    #[test]
    fn ranges_and_comments() {
        let expected = [
            Run {
                first: 3,
                blocks: 1,
            },
            Run {
                first: 5,
                blocks: 3,
            },
        ];
        assert_eq!(parse("# heap\n3\n\n5-7 # three\n").unwrap(), expected);
        assert!(
            parse("1\n7-5\n")
                .unwrap_err()
                .to_string()
                .contains("line 2")
        );
        assert!(parse("B1").unwrap_err().to_string().contains("\"B1\""));
        assert!(parse("18446744073709551615").is_err());
    }
}
