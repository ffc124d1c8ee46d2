//! Step ranges: the ranges of collectives that the plugin records (`NCCL_OTF2_STEPS`).

pub use nccl_events::control::Span as StepRange;

/// Sorted, non-adjacent ranges. Without any range, everything is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRanges(Vec<StepRange>);

impl StepRanges {
    /// The limit is low because callbacks search the ranges.
    pub const MOST: usize = 16;

    /// Parses `100-200`, `100-` (to the end), `100`, or several separated by commas; `none` for no limit.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        let words = text.split(',').map(str::trim);
        let mut ranges: Vec<StepRange> = words.map(range).collect::<Result<_, _>>()?;
        small_sort::sort(&mut ranges);
        let mut joined: Vec<StepRange> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(previous) if range.first <= previous.last.saturating_add(1) => {
                    previous.last = previous.last.max(range.last);
                }
                _ => joined.push(range),
            }
        }
        if joined.len() > Self::MOST {
            return Err(format!("{} ranges; {} at most", joined.len(), Self::MOST));
        }
        Ok(Self(joined))
    }

    pub fn ranges(&self) -> &[StepRange] {
        &self.0
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn range(word: &str) -> Result<StepRange, String> {
    let (first, last) = match word.split_once('-') {
        Some((first, last)) => (first.trim(), last.trim()),
        None => (word, word),
    };
    let number = |text: &str| -> Result<u32, String> {
        text.parse()
            .map_err(|_| format!("\"{word}\" is no range of collectives like 100-200 (100- for all from the 100th on)"))
    };
    let first = number(first)?;
    let last = if last.is_empty() { u32::MAX } else { number(last)? };
    if first == 0 {
        Err(format!("\"{word}\": collectives are counted from 1"))
    } else if last < first {
        Err(format!("\"{word}\" ends before it begins"))
    } else {
        Ok(StepRange { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(u32, u32)>, String> {
        let steps = StepRanges::parse(text)?;
        Ok(steps.ranges().iter().map(|range| (range.first, range.last)).collect())
    }

    #[test]
    fn ranges_are_sorted_and_joined() {
        assert_eq!(read("100-200"), Ok(vec![(100, 200)]));
        assert_eq!(read("100-110, 1-3,7"), Ok(vec![(1, 3), (7, 7), (100, 110)]));
        assert_eq!(read("1-3,4-6,5-"), Ok(vec![(1, u32::MAX)]));
        assert_eq!(read("none"), Ok(vec![]));
    }

    #[test]
    fn an_error_names_the_word() {
        for (text, named) in [
            ("", "\"\" is no range"),
            ("a-b", "\"a-b\" is no range of collectives like 100-200"),
            ("1-3,9-7", "\"9-7\" ends before it begins"),
            ("0-7", "counted from 1"),
            ("-7", "\"-7\" is no range"),
            ("1-99999999999", "is no range"),
        ] {
            let reason = read(text).expect_err(text);
            assert!(reason.contains(named), "{text}: {reason}");
        }
        let many: Vec<String> = (1..=17).map(|n| (2 * n).to_string()).collect();
        let reason = read(&many.join(",")).expect_err("too many");
        assert_eq!(reason, "17 ranges; 16 at most");
    }
}
