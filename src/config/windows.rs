//! Windows of steps: from which collective to which one is recorded (`NCCL_OTF2_WINDOW`).

pub use nccl_events::control::Span;

/// Windows in order, none touching the next; without any there is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(Vec<Span>);

impl Windows {
    /// More are not kept: callbacks look through them.
    pub const MOST: usize = 16;

    /// Reads `100-200`, `100-` (to the end), `100`, several with commas between; `none` for no limit.
    ///
    /// # Errors
    /// Names what is no window, and how one is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        let words = text.split(',').map(str::trim);
        let mut spans: Vec<Span> = words.map(span).collect::<Result<_, _>>()?;
        spans.sort_unstable();
        let mut joined: Vec<Span> = Vec::new();
        for span in spans {
            match joined.last_mut() {
                Some(before) if span.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(span.last);
                }
                _ => joined.push(span),
            }
        }
        if joined.len() > Self::MOST {
            return Err(format!("{} windows; {} at most", joined.len(), Self::MOST));
        }
        Ok(Self(joined))
    }

    /// The windows.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Whether there is no limit.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn span(word: &str) -> Result<Span, String> {
    let (first, last) = match word.split_once('-') {
        Some((first, last)) => (first.trim(), last.trim()),
        None => (word, word),
    };
    let number = |text: &str| -> Result<u32, String> {
        text.parse().map_err(|_| {
            format!("\"{word}\" is no window of collectives like 100-200 (100- for all from the 100th on)")
        })
    };
    let first = number(first)?;
    let last = if last.is_empty() {
        u32::MAX
    } else {
        number(last)?
    };
    if first == 0 {
        Err(format!("\"{word}\": collectives are counted from 1"))
    } else if last < first {
        Err(format!("\"{word}\" ends before it begins"))
    } else {
        Ok(Span { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(u32, u32)>, String> {
        let windows = Windows::parse(text)?;
        let spans = windows.spans().iter();
        Ok(spans.map(|span| (span.first, span.last)).collect())
    }

    #[test]
    fn windows_are_read_in_order_and_joined() {
        assert_eq!(read("100-200"), Ok(vec![(100, 200)]));
        assert_eq!(read("100-110, 1-3,7"), Ok(vec![(1, 3), (7, 7), (100, 110)]));
        assert_eq!(read("1-3,4-6,5-"), Ok(vec![(1, u32::MAX)]));
        assert_eq!(read("none"), Ok(vec![]));
    }

    #[test]
    fn what_is_no_window_is_named() {
        for (text, named) in [
            ("", "\"\" is no window"),
            ("a-b", "\"a-b\" is no window of collectives like 100-200"),
            ("1-3,9-7", "\"9-7\" ends before it begins"),
            ("0-7", "counted from 1"),
            ("-7", "\"-7\" is no window"),
            ("1-99999999999", "is no window"),
        ] {
            let reason = read(text).expect_err(text);
            assert!(reason.contains(named), "{text}: {reason}");
        }
        let many: Vec<String> = (1..=17).map(|n| (2 * n).to_string()).collect();
        let reason = read(&many.join(",")).expect_err("too many");
        assert_eq!(reason, "17 windows; 16 at most");
    }
}
