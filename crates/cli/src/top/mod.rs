//! `nccl-otf2 top`: shows in the terminal what a running job does.
//!
//! ```text
//!  live::Live ─► Snapshot ─► tables ─► screen ─► terminal
//! ```

mod screen;
mod tables;
mod terminal;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::Timestamp;
use live::{Live, Options, Snapshot};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use crate::exit::Exit;
use crate::place;
use crate::print::{self, Text};
use crate::running::{Line, exit, problems, read};
use crate::units::seconds;
use screen::{Screen, summary};
use tables::{Before, View};
use terminal::Terminal;

const EXAMPLES: &str = "\
Follows the journals of the job's processes on this host and shows, every --interval seconds: the communicators with \
the operation that is open longest, operations per second, bus bandwidth, who came last and what others waited for it; \
below them the ranks, operations or processes.

  nccl-otf2 top trace
  nccl-otf2 top trace --once               once, as text: from the beginning of the recording to now
  nccl-otf2 top trace --json | jq .ranks   the numbers, for programs

Keys: q quits; Up and Down (k, j) select a communicator; Tab changes the lower table; s sorts it by its next column, the \
largest first; PgUp and PgDn (Space) show more rows.

busbw and algbw are medians over the ranks, in the interval, of the operations that moved most bytes; there are none \
where the timing does not measure work. Who came last is known where all ranks are on this host, and counted only \
beyond the clocks' uncertainty. gpu_wait, peer_wait and network are shares of the time that proxies waited. An \
operation that is open for long: `nccl-otf2 hang` says who holds it up.

Where the terminal is narrow the last columns are left out. Where stdout is no terminal it prints once.

Exit codes: 0 ended by q or a signal, or printed, 2 wrong usage, or nothing that can be read.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory
    #[arg(value_name = "DIR", value_parser = place::job_argument)]
    directory: PathBuf,

    /// Refresh this often
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,

    /// Print once, as text
    #[arg(long)]
    once: bool,

    /// Print once, as JSON (docs/REFERENCE.md, `top --json`)
    #[arg(long)]
    json: bool,
}

const POLL: Duration = Duration::from_millis(100);

pub(crate) fn top(request: &Request) -> Result<Exit> {
    let directory = place::job(&request.directory)?;
    place::note_other_jobs(directory);
    if request.json || request.once || !terminal::is_there() {
        let now = once(directory);
        match request.json {
            true => print::json(&Line::of(&now))?,
            false => print::text(&text(&title(request, &now), &now))?,
        }
        problems(&now).for_each(print::note);
        return Ok(exit(&now));
    }
    show(request, &mut Live::new(directory, Options::default()))?;
    Ok(Exit::Well)
}

/// A snapshot of everything recorded so far. Its window has no known length.
fn once(directory: &Path) -> Snapshot {
    let options = Options { scan: Duration::ZERO, ..Options::default() };
    let mut live = Live::new(directory, options);
    read(&mut live, None, Some(options.settle), &AtomicBool::new(false));
    live.snapshot()
}

fn show(request: &Request, live: &mut Live) -> Result<()> {
    let [is_over, is_resized] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    for (signal, flag) in [(SIGTERM, &is_over), (SIGINT, &is_over), (SIGHUP, &is_over), (SIGWINCH, &is_resized)] {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot catch signals")?;
    }
    let terminal = Terminal::enter().context("cannot use the terminal")?;
    let interval = Duration::from_secs_f64(request.interval.max(0.1));
    let (mut screen, mut now, mut before) = (Screen::default(), Snapshot::default(), Before::default());
    // Draw only after something has been read.
    let mut next = Instant::now() + POLL;
    let (mut is_changed, mut is_catching_up) = (false, true);
    while !is_over.load(Ordering::SeqCst) {
        let is_behind = live.poll().is_behind;
        if Instant::now() >= next {
            (before, now) = (Before::of(&now), live.snapshot());
            if is_catching_up {
                // The screen has the sums of everything: the backlog belongs to no interval.
                (before, now.interval_ns) = (Before::default(), 0);
            }
            is_catching_up &= is_behind;
            next = Instant::now() + interval;
            is_changed = true;
        }
        if (is_resized.swap(false, Ordering::SeqCst) || is_changed) && now.at_ns > 0 {
            terminal.draw(&screen.lines(&title(request, &now), &now, &before, terminal.size()))?;
        }
        let wait = if is_behind { Duration::ZERO } else { POLL.min(next.saturating_duration_since(Instant::now())) };
        let key = terminal.key(wait);
        is_changed = key.is_some();
        if key.is_some_and(|key| !screen.press(&key, View { now: &now, before: &before, only: None })) {
            break;
        }
    }
    Ok(())
}

fn title(request: &Request, now: &Snapshot) -> String {
    let at = Timestamp::from_nanosecond(now.at_ns.into()).unwrap_or_default();
    let job = &now.job;
    let job = [&job.host, &job.launcher, &job.job].into_iter().filter(|it| !it.is_empty());
    let job: String = job.map(|it| format!(" {it}")).collect();
    format!("nccl-otf2 top {}{job}  {}", request.directory.display(), at.strftime("%H:%M:%S UTC"))
}

fn text(title: &str, now: &Snapshot) -> Text {
    let view = View { now, before: &Before::default(), only: None };
    let mut text = Text::default();
    text.line(title);
    for line in summary(view) {
        text.line(line);
    }
    // If a job's journals were removed, the lines above name its archive.
    let is_removed = now.processes.is_empty() && now.processes_missed > 0;
    let sheets = [view.communicators(), view.ranks_table(), view.operations_table(), view.processes_table()];
    for sheet in sheets.iter().filter(|sheet| !(is_removed && sheet.is_empty())) {
        sheet.print(true, &mut text);
    }
    text
}
