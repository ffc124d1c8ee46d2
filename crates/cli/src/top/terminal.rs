//! The terminal: uses the alternative screen, and restores the terminal afterwards.

use std::io::{self, IsTerminal as _, Write as _};
use std::panic;
use std::time::Duration;

use console::{Key, Term, truncate_str};
use nccl_events::visible;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// Selects the alternative screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Synchronized output: terminals that support it show everything in between at once; others ignore it.
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
    /// The keyboard settings to restore; `None` if stdin is no terminal.
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
            // Disables suspending: a shell would not restore this screen.
            keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        }
        // Restores the terminal first, so that the panic message stays visible.
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

    /// Returns a key, or `None` after `wait` or if a signal arrived.
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

/// Restores the terminal. If the terminal is gone, nothing can be done.
fn leave(original: Option<&Termios>) {
    if let Some(original) = original {
        let _gone = tcsetattr(io::stdin(), OptionalActions::Flush, original);
    }
    let _gone = io::stdout().write_all(LEAVE.as_bytes());
    let _gone = io::stdout().flush();
}
