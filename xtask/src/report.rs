//! What the commands print about themselves: headings and short facts, all on stdout and in order.

use std::io::Write as _;
use std::time::Duration;

/// Starts a section.
pub(crate) fn heading(title: &str) {
    println!("\n== {title}");
    flush();
}

/// One fact below a heading.
pub(crate) fn fact(text: &str) {
    println!("   {text}");
    flush();
}

/// Seconds with one digit: enough to see what was slow.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

// The children write to the same terminal or log: what was said before they start must be there before.
fn flush() {
    // A closed stdout is noticed by the next write; there is nobody left to tell.
    let _ = std::io::stdout().flush();
}
