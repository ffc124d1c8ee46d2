//! Progress of long work, shown on stderr if it is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nccl_events::Progress;

use crate::print;

pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar that shows nothing yet. indicatif draws nothing if stderr is no terminal.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        Self { bar }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn begin(&self, what: &str, steps: u64) {
        // Each of these calls redraws the bar, so it stays hidden until all are made.
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
        self.bar.set_length(steps);
        self.bar.set_message(what.to_owned());
        self.bar.reset();
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        self.bar.tick();
    }

    fn step(&self) {
        self.bar.inc(1);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn remark(&self, remark: &str) {
        self.bar.suspend(|| print::note(remark));
    }
}
