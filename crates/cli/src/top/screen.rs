//! The screen's contents: a summary of all processes, the communicators, and a table of the selected one.

use console::Key;
use live::{ProcessState, Snapshot};

use super::tables::{Before, View};
use super::terminal::Style;
use crate::running::over;
use crate::sheet::Sheet;
use crate::units::{bytes, plural, time};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lower {
    #[default]
    Ranks,
    Operations,
    Processes,
}

#[derive(Debug, Default)]
pub(super) struct Screen {
    selected: usize,
    lower: Lower,
    sort: Option<&'static str>,
    from: usize,
    page: usize,
}

impl Screen {
    /// Handles a key. Returns `false` if the user quits.
    pub(super) fn press(&mut self, key: &Key, view: View<'_>) -> bool {
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
                let next = columns.iter().position(|it| Some(it.name) == self.sort).map_or(0, |at| at + 1);
                self.sort = columns.get(next).map(|it| it.name);
            }
            _ => {}
        }
        true
    }

    pub(super) fn lines(
        &mut self,
        title: &str,
        now: &Snapshot,
        before: &Before,
        (height, width): (usize, usize),
    ) -> Vec<(Style, String)> {
        self.selected = self.selected.min(now.communicators.len().saturating_sub(1));
        let all = View { now, before, only: None };
        let mut lines = vec![(Style::Bold, title.to_owned())];
        // A small window is left to the tables.
        let summary = summary(all).into_iter().take(if height < 12 { 1 } else { 2 });
        lines.extend(summary.map(|line| (Style::Plain, line)));
        let gap = (height > 20).then(|| (Style::Plain, String::new()));
        lines.extend(gap.clone());
        let communicators = all.communicators().within(false, Some(width));
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
        let _sorted = sheet.arrange(self.sort, None);
        let mut lower = sheet.within(false, Some(width)).into_iter();
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

impl Lower {
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

    fn sheet(self, view: View<'_>) -> Sheet {
        match self {
            Self::Ranks => view.ranks_table(),
            Self::Operations => view.operations_table(),
            Self::Processes => view.processes_table(),
        }
    }
}

pub(super) fn summary(view: View<'_>) -> Vec<String> {
    let now = view.now;
    let count = |state| now.processes.iter().filter(|it| it.state == state).count() as u64;
    let mut states = vec![plural(count(ProcessState::Running), "process runs", "processes run")];
    for (state, word) in [
        (ProcessState::Stopped, "stopped"),
        (ProcessState::Finished, "finished"),
        (ProcessState::Gone, "gone"),
        (ProcessState::Unknown, "in other containers"),
    ] {
        states.extend((count(state) > 0).then(|| format!("{} {word}", count(state))));
    }
    let sum = |get: fn(&live::Process) -> u64| now.processes.iter().map(get).sum::<u64>();
    let mut missing = Vec::new();
    for (number, one, many) in [
        (sum(|it| it.lost_events), "event was not recorded", "events were not recorded"),
        (sum(|it| it.damaged), "record is damaged", "records are damaged"),
        (sum(|it| it.late_events), "event came late", "events came late"),
        (
            now.processes_missed,
            "process ended and its journal is removed",
            "processes ended and their journals are removed",
        ),
        (
            now.processes_elsewhere,
            "process is on another host or of another boot, and is followed only there",
            "processes are on other hosts or of other boots, and are followed only there",
        ),
        (now.unreadable.len() as u64, "part cannot be read", "parts cannot be read"),
        (now.folded, "series is folded into `other`", "series are folded into `other`"),
    ] {
        missing.extend((number > 0).then(|| plural(number, one, many)));
    }
    let (behind, discarded) = (sum(|it| it.behind_bytes), sum(|it| it.discarded_bytes));
    let behind_ns = now.processes.iter().map(|it| it.behind_ns).max().unwrap_or(0);
    missing.extend((behind > 0).then(|| format!("{} behind ({})", time(behind_ns), bytes(behind))));
    missing.extend((discarded > 0).then(|| format!("{} removed before they were read", bytes(discarded))));
    if missing.is_empty() {
        missing.push("nothing is missing".to_owned());
    }
    let mut lines = vec![format!("{}; {}", states.join(", "), missing.join(", "))];
    lines.extend(over(now));
    let oldest = now.ranks.iter().filter_map(|rank| Some((rank.oldest.as_ref()?, rank)));
    if let Some(((function, since_ns), rank)) = oldest.min_by_key(|((_, since_ns), _)| *since_ns) {
        let (age, name) = (view.age(rank, *since_ns), view.name(rank.communicator));
        lines.push(format!("oldest open: {function} for {age}, rank {} of {name}", rank.rank));
    }
    lines
}
