//! The terminal: its own screen while it is used, as it was before afterwards.

use std::io::{self, IsTerminal as _, Write as _};
use std::panic;
use std::time::Duration;

use console::{Key, Term, truncate_str};
use nccl_events::visible;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// The alternative screen without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Terminals that know these show what is between them at once; others ignore them.
const BEGIN: &str = "\x1b[?2026h\x1b[H";
const END: &str = "\x1b[J\x1b[?2026l";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Reverse,
}

pub(super) struct Terminal {
    term: Term,
    /// How the keyboard was set; none where stdin is no terminal.
    original: Option<Termios>,
}

pub(super) fn is_there() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

impl Terminal {
    pub(super) fn enter() -> io::Result<Self> {
        let original = tcgetattr(io::stdin()).ok();
        if let Some(original) = &original {
            let mut keys = original.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // Nobody comes back to this screen from a shell.
            keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        }
        // A panic says why on the screen that stays.
        let hook = panic::take_hook();
        let before = original.clone();
        panic::set_hook(Box::new(move |info| {
            leave(before.as_ref());
            hook(info);
        }));
        let terminal = Self { term: Term::stdout(), original };
        terminal.term.write_str(ENTER)?;
        Ok(terminal)
    }

    pub(super) fn size(&self) -> (usize, usize) {
        let (lines, columns) = self.term.size();
        (lines.into(), columns.into())
    }

    pub(super) fn draw(&self, lines: &[(Style, String)]) -> io::Result<()> {
        let (height, width) = self.size();
        let mut text = BEGIN.to_owned();
        for (at, (style, line)) in lines.iter().take(height).enumerate() {
            let line = visible(line);
            let line = truncate_str(&line, width, "…");
            let (begin, end) = match style {
                Style::Plain => ("", ""),
                Style::Bold => ("\x1b[1m", "\x1b[0m"),
                Style::Reverse => ("\x1b[7m", "\x1b[0m"),
            };
            let separator = if at > 0 { "\r\n" } else { "" };
            text += &format!("{separator}{begin}{line}{end}\x1b[K");
        }
        text += END;
        self.term.write_str(&text)?;
        io::stdout().flush()
    }

    /// A key; none after this time, or where a signal came.
    pub(super) fn key(&self, wait: Duration) -> Option<Key> {
        let stdin = io::stdin();
        let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
        let keys = if self.original.is_some() { &mut keys[..] } else { &mut [] };
        let wait = Timespec::try_from(wait).ok();
        let is_pressed = poll(keys, wait.as_ref()).is_ok_and(|ready| ready > 0);
        if is_pressed { self.term.read_key().ok() } else { None }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave(self.original.as_ref());
    }
}

/// Gives the terminal back. Nothing can be done when it is gone.
fn leave(original: Option<&Termios>) {
    if let Some(original) = original {
        let _gone = tcsetattr(io::stdin(), OptionalActions::Flush, original);
    }
    let _gone = io::stdout().write_all(LEAVE.as_bytes());
    let _gone = io::stdout().flush();
}
