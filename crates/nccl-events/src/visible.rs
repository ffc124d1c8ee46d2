//! Makes text from outside safe to show in a terminal or a log.

use std::borrow::Cow;

/// Escapes control characters, as `\n` and `\u{1b}`: names come from other programs, and a terminal executes control
/// sequences, shows a line break like a new message, and reorders text at Unicode's directional marks.
pub fn visible(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_control) else {
        return Cow::Borrowed(text);
    };
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(&text[..first]);
    for letter in text[first..].chars() {
        if is_control(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal acts on the character instead of showing it: C0, DEL, C1, line separators, directional marks.
const fn is_control(letter: char) -> bool {
    matches!(
        letter,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_instead() {
        assert_eq!(visible("a\x1b[2Jb\nc\r\t\x7f"), r"a\u{1b}[2Jb\nc\r\t\u{7f}");
        assert_eq!(visible("\u{9b}2J\u{202e}x\u{2066}\u{200f}\u{61c}"), r"\u{9b}2J\u{202e}x\u{2066}\u{200f}\u{61c}");
        for plain in ["", "world", "größe → 4 µs", "a\\n", "日本", "\u{a0}"] {
            assert!(matches!(visible(plain), Cow::Borrowed(it) if it == plain), "{plain}");
        }
    }
}
