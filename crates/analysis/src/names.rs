//! Names of programs in lines for people: escaped, measured in columns of a terminal, and shortened.

use nccl_events::visible;
use unicode_width::UnicodeWidthStr as _;

/// The longest line of a verdict, in columns.
pub const MOST_COLUMNS: usize = 110;

/// How many columns a text has on a terminal, escaped as [`visible`] does.
pub fn columns(text: &str) -> usize {
    visible(text).width()
}

/// Shortens a text to `most` columns, escaped. Cuts the middle, because names of ranges often differ at the end.
pub fn shortened(text: &str, most: usize) -> String {
    let text = visible(text);
    if text.width() <= most {
        return text.into_owned();
    }
    let tail = most.saturating_sub(1) / 2;
    let head = most.saturating_sub(tail + 1);
    let begin =
        text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take_while(|end| text[..*end].width() <= head);
    let begin = begin.last().unwrap_or(0);
    let end = text.char_indices().map(|(at, _)| at).find(|at| text[*at..].width() <= tail).unwrap_or(text.len());
    format!("{}…{}", &text[..begin], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_measured_as_a_terminal_shows_them() {
        assert_eq!((columns("a\u{1b}"), columns("日本"), columns("größe")), (7, 4, 5));
        assert_eq!(shortened("load", 4), "load");
        assert_eq!(shortened("forward/layer 17", 9), "forw…r 17");
        assert_eq!(shortened("日本日本日本", 7), "日…本");
        assert_eq!(shortened("\n\n\n\n\n", 5), r"\n…\n");
        assert_eq!((shortened("load", 1), shortened("load", 0)), ("…".to_owned(), "…".to_owned()));
    }
}
