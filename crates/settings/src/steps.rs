//! Step ranges: what the plugin records (`NCCL_OTF2_STEPS`), by numbers of collectives or of a named NVTX range.

use std::fmt;

pub use nccl_events::control::Span as StepRange;

/// Sorted, non-adjacent ranges. Without any range, everything is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRanges {
    name: Option<String>,
    ranges: Vec<StepRange>,
}

impl StepRanges {
    /// The limit is low because callbacks search the ranges.
    pub const MOST: usize = 16;

    /// Parses `100-200`, `100-` (to the end), `100`, or several separated by commas: collectives. `NAME:100-200`
    /// selects NVTX ranges with this name, `NAME` all of these. `none` removes the limit.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        let is_list = |text: &str| text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let (name, list) = match text.rsplit_once(':') {
            Some((name, list)) if is_list(list.trim()) => (Some(name), list),
            None if is_list(text.trim()) || text.is_empty() => (None, text),
            _ => (Some(text), "1-"),
        };
        let name = name.map(|name| name.trim().to_owned());
        if let Some(name) = &name {
            check_name(name)?;
        }
        let words = list.split(',').map(str::trim);
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
        Ok(Self { name, ranges: joined })
    }

    /// The name of the NVTX ranges that are the steps; `None` if collectives are.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[StepRange] {
        &self.ranges
    }

    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = name.split(|part: char| !part.is_ascii_alphanumeric()).find(|word| is_number(word));
    if name.is_empty() {
        Err("there is no name before the colon".to_owned())
    } else if name.contains(',') {
        Err(format!("\"{name}\" is no name of a range; only one can be given"))
    } else if let Some(number) = number {
        let recorded = name.replace(number, "#");
        Err(format!(
            "a number is no part of the name of a range: \"{recorded}:5-10\" are the 5th to the 10th range \"{recorded}\""
        ))
    } else {
        Ok(())
    }
}

/// As [`StepRanges::parse`] reads it; empty without any range.
impl fmt::Display for StepRanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.ranges.iter().map(StepRange::to_string).collect();
        let name = self.name.as_ref().map_or_else(String::new, |name| format!("{name}:"));
        write!(formatter, "{name}{}", ranges.join(","))
    }
}

fn range(word: &str) -> Result<StepRange, String> {
    let (first, last) = match word.split_once('-') {
        Some((first, last)) => (first.trim(), last.trim()),
        None => (word, word),
    };
    let number = |text: &str| -> Result<u32, String> {
        text.parse()
            .map_err(|_| format!("\"{word}\" is no range of steps like 100-200 (100- for all from the 100th on)"))
    };
    let first = number(first)?;
    let last = if last.is_empty() { u32::MAX } else { number(last)? };
    if first == 0 {
        Err(format!("\"{word}\": steps are counted from 1"))
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
    fn steps_have_a_name() {
        let of = |text: &str| {
            let steps = StepRanges::parse(text).expect(text);
            (steps.name().map(str::to_owned), read(text).expect(text))
        };
        for (text, name, ranges) in [
            ("step:100-200,7", "step", vec![(7, 7), (100, 200)]),
            ("train: step #:3-", "train: step #", vec![(3, u32::MAX)]),
            ("backward", "backward", vec![(1, u32::MAX)]),
            ("aten::mm", "aten::mm", vec![(1, u32::MAX)]),
        ] {
            assert_eq!(of(text), (Some(name.to_owned()), ranges), "{text}");
            let shown = StepRanges::parse(text).expect(text).to_string();
            assert_eq!(StepRanges::parse(&shown), StepRanges::parse(text), "{shown}");
        }
    }

    #[test]
    fn an_error_names_the_word() {
        for (text, named) in [
            ("", "\"\" is no range"),
            ("7-b", "\"7-b\" is no range of steps like 100-200"),
            ("step:7-b", "\"7-b\" is no range of steps like 100-200"),
            (":7", "no name before the colon"),
            ("step 3", "\"step #:5-10\" are the 5th to the 10th range \"step #\""),
            ("backward,eval", "only one can be given"),
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
