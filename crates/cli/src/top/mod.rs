//! `nccl-otf2 top`: shows in the terminal what a running job does.
//!
//! ```text
//!  live::Live ─► Snapshot ─► tables ─► Screen ─► Terminal
//! ```

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use crate::command_line::Exit;
use crate::dump::{Line, exit, nothing, over, problems, read};
use crate::finalize::{AFTER_SECONDS, judge_job, ns};
use crate::output::{NumberTable, Text, VerdictLine, seconds};
use crate::top::tables::{EarlierTotals, View};
use crate::{archives, output};
use analysis::units::{bytes, plural, time};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use console::{Key, Term, truncate_str};
use jiff::Timestamp;
use live::{Live, Options, ProcessState, Snapshot};
use nccl_events::visible;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

mod tables;

const EXAMPLES: &str = "\
Follows the journals of the job's processes on this host. Every --interval seconds it shows the communicators, each \
with its longest open operation, operations per second, bus bandwidth, the rank that came last and how long others \
waited for it; below them the ranks, operations or processes.

  nccl-otf2 top trace
  nccl-otf2 top trace --once               once, as text: from the beginning of the recording to now
  nccl-otf2 top trace --json | jq .ranks   the numbers, for programs

Keys: q quits; Up and Down (k, j) select a communicator; Tab changes the lower table; s sorts it by the next column, \
largest first; PgUp and PgDn (Space) show more rows.

busbw and algbw are medians over the ranks of the operations that moved most bytes in the interval; they are empty if \
the timing does not measure work. Who came last is known only if all ranks are on this host, and counts only beyond \
the clocks' uncertainty. gpu_wait, peer_wait and network are shares of the time that proxies waited. The first line is \
that of `nccl-otf2 hang` if it finds a hang, which then says more.

A narrow terminal hides the last columns. If stdout is not a terminal, top prints once.

Exit codes: 0 ended by q or a signal, or printed, 2 wrong usage, or nothing readable.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory
    #[arg(value_name = "DIR", value_parser = archives::job_argument)]
    directory: PathBuf,

    /// Refresh interval
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,

    /// Print once, as text
    #[arg(long)]
    once: bool,

    /// Print once, as JSON
    #[arg(long)]
    json: bool,
}

const POLL: Duration = Duration::from_millis(100);

pub(crate) fn top(request: &Request) -> Result<Exit> {
    let directory = archives::job(&request.directory)?;
    archives::note_other_jobs(directory);
    if request.json || request.once || !is_there() || is_finished(directory) {
        return print_once(request, directory);
    }
    show(request, &mut Live::new(directory, Options::default()))?;
    Ok(Exit::Well)
}

/// Whether there is an archive, and no journal to follow.
fn is_finished(directory: &Path) -> bool {
    archives::is_archive(directory) && Live::new(directory, Options::default()).poll().processes == 0
}

fn print_once(request: &Request, directory: &Path) -> Result<Exit> {
    let now = once(directory);
    // An archive that cannot be judged is refused below.
    let hang = judge_job(directory, AFTER_SECONDS).ok().filter(|report| report.verdict.found);
    let nothing = nothing(directory, &now);
    if let (None, Some(nothing)) = (&hang, &nothing) {
        bail!("{nothing}");
    }
    let view = View { now: &now, before: &EarlierTotals::default(), only: None };
    let summary = Summary::new(view, hang.map(|report| report.verdict.line));
    if request.json {
        output::json(&Line::new(&now, Some(VerdictLine { line: summary.verdict })))?
    } else {
        output::text(&text(summary, &title(request, &now), view))?
    }
    problems(&now).for_each(output::note);
    Ok(if nothing.is_some() { Exit::Well } else { exit(&now) })
}

/// A snapshot of everything recorded so far. Its window has no known length.
fn once(directory: &Path) -> Snapshot {
    let options = Options { scan: Duration::ZERO, ..Options::default() };
    let mut live = Live::new(directory, options);
    read(&mut live, None, Some(options.until_counted()), &AtomicBool::new(false));
    live.snapshot()
}

fn show(request: &Request, live: &mut Live) -> Result<()> {
    let [is_over, is_resized] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    for (signal, flag) in [(SIGTERM, &is_over), (SIGINT, &is_over), (SIGHUP, &is_over), (SIGWINCH, &is_resized)] {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot catch signals")?;
    }
    let terminal = Terminal::enter().context("cannot use the terminal")?;
    let interval = Duration::from_secs_f64(request.interval.max(0.1));
    let (mut screen, mut now, mut before) = (Screen::default(), Snapshot::default(), EarlierTotals::default());
    let mut judge = HangJudge::default();
    // Draw only after something has been read.
    let mut next = Instant::now() + POLL;
    let (mut is_changed, mut is_catching_up) = (false, true);
    while !is_over.load(Ordering::SeqCst) {
        let is_behind = live.poll().is_behind;
        if Instant::now() >= next {
            (before, now) = (EarlierTotals::from_snapshot(&now), live.snapshot());
            if is_catching_up {
                // Show sums over the whole recording: the records that were read to catch up belong to no interval.
                (before, now.interval_ns) = (EarlierTotals::default(), 0);
            }
            is_catching_up &= is_behind;
            next = Instant::now() + interval;
            is_changed = true;
        }
        if (is_resized.swap(false, Ordering::SeqCst) || is_changed) && now.at_ns > 0 {
            let view = View { now: &now, before: &before, only: None };
            let summary = Summary::new(view, judge.line(archives::directory(&request.directory), view.may_hang()));
            terminal.draw(&screen.lines(summary, &title(request, &now), view, terminal.size()))?;
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
    let job = [&job.host, &job.launcher, &job.job].into_iter().filter(|text| !text.is_empty());
    let job: String = job.map(|text| format!(" {text}")).collect();
    format!("nccl-otf2 top {}{job}  {}", request.directory.display(), at.strftime("%H:%M:%S UTC"))
}

/// The line of `hang` on a job that may hang, judged beside the screen: a large recording takes seconds.
#[derive(Debug, Default)]
struct HangJudge {
    line: Option<String>,
    next: Option<Instant>,
    running: Option<JoinHandle<(Option<String>, Duration)>>,
}

impl HangJudge {
    fn line(&mut self, directory: &Path, may_hang: bool) -> Option<String> {
        const PAUSE: Duration = Duration::from_secs(10);
        if let Some(judged) = self.running.take_if(|running| running.is_finished()) {
            let (line, took) = judged.join().unwrap_or_default();
            // Whole journals are read: limit that to a tenth of the time.
            self.next = Some(Instant::now() + PAUSE.max(took * 9));
            self.line = line;
        }
        if !may_hang {
            self.line = None;
        } else if self.running.is_none() && self.next.is_none_or(|next| Instant::now() >= next) {
            let directory = directory.to_owned();
            let judge = thread::Builder::new().name("hang".to_owned());
            self.running = judge.spawn(move || hang_line(&directory)).ok();
        }
        self.line.clone()
    }
}

/// The line of `hang` on running processes, if it finds something, and how long that took.
fn hang_line(directory: &Path) -> (Option<String>, Duration) {
    let began = Instant::now();
    let report = hang::judge_journals(directory, ns(AFTER_SECONDS), &()).ok();
    let verdict = report.map(|report| report.verdict).filter(|verdict| verdict.found);
    (verdict.map(|verdict| verdict.line), began.elapsed())
}

fn text(summary: Summary, title: &str, view: View<'_>) -> Text {
    let mut text = Text::default();
    text.headline(&summary.verdict, summary.is_alarm);
    for line in summary.lines {
        text.line(line);
    }
    text.line(title);
    // If a job's journals were removed, the lines above name its archive.
    let has_none = view.now.processes.is_empty();
    let sheets = [view.communicators(), view.ranks_table(), view.operations_table(), view.processes_table()];
    for sheet in sheets.iter().filter(|sheet| !(has_none && sheet.is_empty())) {
        sheet.print(true, &mut text);
    }
    text
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LowerTable {
    #[default]
    Ranks,
    Operations,
    Processes,
}

/// The screen's contents: a summary of all processes, the communicators, and a table of the selected one.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    selected: usize,
    lower: LowerTable,
    sort: Option<&'static str>,
    from: usize,
    page: usize,
}

impl Screen {
    /// Handles a key. Returns `false` if the user quits.
    pub(crate) fn press(&mut self, key: &Key, view: View<'_>) -> bool {
        match key {
            Key::Char('q' | 'Q') | Key::CtrlC => return false,
            Key::ArrowUp | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::ArrowDown | Key::Char('j') => self.selected += 1,
            Key::PageUp => self.from = self.from.saturating_sub(self.page),
            Key::PageDown | Key::Char(' ') => self.from += self.page,
            Key::Tab | Key::ArrowRight => {
                *self = Self { selected: self.selected, lower: self.lower.next(), ..Self::default() };
            }
            Key::Char('s') => {
                let columns = self.lower.sheet(view).columns;
                let next = columns.iter().position(|column| Some(column.name) == self.sort).map_or(0, |at| at + 1);
                self.sort = columns.get(next).map(|column| column.name);
            }
            _ => {}
        }
        true
    }

    pub(crate) fn lines(
        &mut self,
        summary: Summary,
        title: &str,
        all: View<'_>,
        (height, width): (usize, usize),
    ) -> Vec<(Style, String)> {
        self.selected = self.selected.min(all.now.communicators.len().saturating_sub(1));
        let mut lines = vec![(if summary.is_alarm { Style::Alarm } else { Style::Bold }, summary.verdict)];
        // A small window is left to the tables.
        let more = summary.lines.into_iter().chain([title.to_owned()]).take(height / 6);
        lines.extend(more.map(|line| (Style::Plain, line)));
        let gap = (height > 20).then(|| (Style::Plain, String::new()));
        lines.extend(gap.clone());
        let communicators = all.communicators().fitting_lines(Some(width)).0;
        let mut communicators = communicators.into_iter();
        lines.extend(communicators.next().map(|heads| (Style::Bold, heads)));
        let shown = (height / 4).max(1);
        for (at, line) in communicators.enumerate().skip((self.selected + 1).saturating_sub(shown)).take(shown) {
            let style = if at == self.selected { Style::Reverse } else { Style::Plain };
            lines.push((style, format!("{line:width$}")));
        }
        lines.extend(gap);
        let mut sheet = self.lower.sheet(View { only: Some(self.selected), ..all });
        // `sort` names a column of this table.
        let _sorted = sheet.sort_and_limit(self.sort, None);
        let mut lower = sheet.fitting_lines(Some(width)).0.into_iter();
        lines.push((Style::Bold, lower.next().unwrap_or_else(|| "  nothing to show".to_owned())));
        let rows: Vec<String> = lower.collect();
        self.page = height.saturating_sub(lines.len() + 1).max(1);
        self.from = self.from.min(rows.len().saturating_sub(self.page));
        lines.extend(rows.iter().skip(self.from).take(self.page).map(|row| (Style::Plain, row.clone())));
        lines.resize(height.saturating_sub(1).max(1), (Style::Plain, String::new()));
        lines.push((Style::Reverse, format!("{:width$}", self.keys(rows.len()))));
        lines
    }

    fn keys(&self, rows: usize) -> String {
        let sort = self.sort.unwrap_or("-");
        let to = (self.from + self.page).min(rows);
        let rows = if to - self.from.min(to) < rows {
            format!(" {}-{to} of {rows} PgDn", self.from + 1)
        } else {
            String::new()
        };
        format!(" q quit  Tab {}{rows}  s sort: {sort}  ↑↓ communicator", self.lower.name())
    }
}

impl LowerTable {
    const fn next(self) -> Self {
        match self {
            Self::Ranks => Self::Operations,
            Self::Operations => Self::Processes,
            Self::Processes => Self::Ranks,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ranks => "ranks",
            Self::Operations => "operations",
            Self::Processes => "processes",
        }
    }

    fn sheet(self, view: View<'_>) -> NumberTable {
        match self {
            Self::Ranks => view.ranks_table(),
            Self::Operations => view.operations_table(),
            Self::Processes => view.processes_table(),
        }
    }
}

/// What `top` says first.
pub(crate) struct Summary {
    /// The line of `hang`, else what stands out.
    verdict: String,
    is_alarm: bool,
    /// The processes, and what is missing.
    lines: Vec<String>,
}

impl Summary {
    fn new(view: View<'_>, hang: Option<String>) -> Self {
        let (is_alarm, over) = (hang.is_some() || view.is_stuck(), over(view.now));
        let more = over.clone().filter(|_| hang.is_some());
        let verdict = hang.or(over).unwrap_or_else(|| view.headline());
        Self { verdict, is_alarm, lines: [processes(view.now)].into_iter().chain(more).collect() }
    }
}

fn processes(now: &Snapshot) -> String {
    let count = |state| now.processes.iter().filter(|process| process.state == state).count() as u64;
    let mut states = vec![plural(count(ProcessState::Running), "process runs", "processes run")];
    for (state, word) in [
        (ProcessState::Stopped, "stopped"),
        (ProcessState::Finished, "ended"),
        (ProcessState::Gone, "gone"),
        (ProcessState::Unknown, "in other containers"),
    ] {
        states.extend((count(state) > 0).then(|| format!("{} {word}", count(state))));
    }
    let sum = |get: fn(&live::Process) -> u64| now.processes.iter().map(get).sum::<u64>();
    let mut missing = Vec::new();
    for (number, one, many) in [
        (sum(|process| process.lost_events), "event was not recorded", "events were not recorded"),
        (sum(|process| process.damaged), "record is damaged", "records are damaged"),
        (sum(|process| process.late_events), "event came late", "events came late"),
        (
            now.processes_missed,
            "process ended and its journal was removed",
            "processes ended and their journals were removed",
        ),
        (
            now.processes_elsewhere,
            "process is on another host or of another boot, and can be followed only there",
            "processes are on other hosts or of other boots, and can be followed only there",
        ),
        (now.unreadable.len() as u64, "part cannot be read", "parts cannot be read"),
        (now.folded, "series is merged into `other`", "series are merged into `other`"),
    ] {
        missing.extend((number > 0).then(|| plural(number, one, many)));
    }
    let (behind, discarded) = (sum(|process| process.behind_bytes), sum(|process| process.discarded_bytes));
    let behind_ns = now.processes.iter().map(|process| process.behind_ns).max().unwrap_or(0);
    missing.extend((behind > 0).then(|| format!("{} behind ({})", time(behind_ns), bytes(behind))));
    missing.extend((discarded > 0).then(|| format!("{} removed before they were read", bytes(discarded))));
    if missing.is_empty() {
        missing.push("nothing is missing".to_owned());
    }
    format!("{}; {}", states.join(", "), missing.join(", "))
}

/// Selects the alternative screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Synchronized output: terminals that support it show everything in between at once; others ignore it.
const BEGIN: &str = "\x1b[?2026h\x1b[H";
const END: &str = "\x1b[J\x1b[?2026l";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Reverse,
    Alarm,
}

/// The terminal: uses the alternative screen, and restores the terminal afterwards.
pub(crate) struct Terminal {
    term: Term,
    /// The keyboard settings to restore; `None` if stdin is no terminal.
    original: Option<Termios>,
}

pub(crate) fn is_there() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

impl Terminal {
    pub(crate) fn enter() -> io::Result<Self> {
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

    pub(crate) fn size(&self) -> (usize, usize) {
        let (lines, columns) = self.term.size();
        (lines.into(), columns.into())
    }

    pub(crate) fn draw(&self, lines: &[(Style, String)]) -> io::Result<()> {
        let (height, width) = self.size();
        let mut text = BEGIN.to_owned();
        for (at, (style, line)) in lines.iter().take(height).enumerate() {
            let line = visible(line);
            let line = truncate_str(&line, width, "…");
            let (begin, end) = match style {
                Style::Plain => ("", ""),
                Style::Bold => ("\x1b[1m", "\x1b[0m"),
                Style::Reverse => ("\x1b[7m", "\x1b[0m"),
                Style::Alarm => ("\x1b[1;31m", "\x1b[0m"),
            };
            let separator = if at > 0 { "\r\n" } else { "" };
            text += &format!("{separator}{begin}{line}{end}\x1b[K");
        }
        text += END;
        self.term.write_str(&text)?;
        io::stdout().flush()
    }

    /// Returns a key, or `None` after `wait` or if a signal arrived.
    pub(crate) fn key(&self, wait: Duration) -> Option<Key> {
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
