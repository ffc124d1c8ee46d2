//! Output for people and programs: results on stdout, everything else on stderr. Sheets and tables, progress, dates and
//! numbers.
//!
//! Names in archives and journals come from other programs: they are escaped here, line by line, for people, and exact
//! for programs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{ErrorKind, Write as _};
use std::{env, io};

use analysis::names;
use analysis::units::{probability, real, whole};
use anyhow::{Context as _, Result, bail};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement};
use console::{Term, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use journal::host;
use nccl_events::{Progress, visible};
use schemars::{JsonSchema, Schema};
use serde::Serialize;

pub(crate) use analysis::names::shortened;
pub(crate) use analysis::units::{bandwidth, bytes, count, plural, time};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Count(u64),
    Bytes(u64),
    /// In ns.
    Time(f64),
    /// In bytes per second.
    Rate(f64),
    Number(f64),
    Share(f64),
    /// A share by which something changed, with its sign.
    Change(f64),
    /// That something is chance.
    Probability(f64),
    None,
}

/// A column: its name, and whether it is also shown when the table is one of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) is_short: bool,
}

pub(crate) type NumberColumn<R> = (&'static str, fn(&R) -> Cell);

/// The narrowest cell in which a text is continued.
const LEAST_OF_CELL: usize = 16;

/// How wide a table of all columns is that no terminal shows.
const WITHOUT_TERMINAL: usize = 120;

/// A table of numbers with units: sorted, cut to the width of the terminal, or as CSV.
#[derive(Debug)]
pub(crate) struct NumberTable {
    pub(crate) title: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    pub(crate) empty: &'static str,
    /// Lines below the title.
    pub(crate) remarks: Vec<String>,
    /// As `remarks`, if the table is requested by itself.
    pub(crate) details: Vec<String>,
    left_out: usize,
}

impl NumberTable {
    pub(crate) fn from_rows<R>(
        title: &'static str,
        rows: impl IntoIterator<Item = R>,
        columns: &[NumberColumn<R>],
    ) -> Self {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let rows = rows.into_iter().map(|row| columns.iter().map(|(_, cell)| cell(&row)).collect()).collect();
        Self { rows, ..Self::new(title, &names) }
    }

    /// Columns by name; those that begin with `+` are shown only if the table is requested by itself.
    pub(crate) fn new(title: &'static str, columns: &[&'static str]) -> Self {
        let column = |name: &&'static str| match name.strip_prefix('+') {
            Some(name) => Column { name, is_short: false },
            None => Column { name, is_short: true },
        };
        let columns = columns.iter().map(column).collect();
        Self {
            title,
            columns,
            rows: Vec::new(),
            empty: "nothing was recorded",
            remarks: Vec::new(),
            details: Vec::new(),
            left_out: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|entry| entry.name == column)
    }

    /// Sorts the rows, numbers descending and words alphabetically, and keeps the first `limit`.
    pub(crate) fn sort_and_limit(&mut self, sort: Option<&str>, limit: Option<usize>) -> Result<()> {
        if let Some(name) = sort {
            let Some(column) = self.columns.iter().position(|column| column.name == name) else {
                let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
                bail!("{:?} has no column {name:?}; it has {}", self.title, names.join(", "));
            };
            nccl_events::sort::sort_by(&mut self.rows, |a, b| match (a.get(column), b.get(column)) {
                (Some(Cell::Text(a)), Some(Cell::Text(b))) => a.cmp(b),
                (a, b) => value(b).total_cmp(&value(a)),
            });
        }
        let kept = limit.unwrap_or(usize::MAX).min(self.rows.len());
        self.left_out = self.rows.len() - kept;
        self.rows.truncate(kept);
        Ok(())
    }

    pub(crate) fn print(&self, is_wide: bool, into: &mut Text) {
        let width = terminal_width();
        into.paragraph(self.title);
        if self.rows.is_empty() {
            into.line(format_args!("  {}", self.empty));
            return;
        }
        for remark in self.remarks.iter().chain(self.details.iter().filter(|_| is_wide)) {
            into.sentence(remark);
        }
        if is_wide {
            self.blocks(width.unwrap_or(WITHOUT_TERMINAL)).into_iter().for_each(|line| into.line(line));
        } else {
            let (lines, left_out) = self.fitting_lines(width);
            lines.into_iter().for_each(|line| into.line(line));
            if !left_out.is_empty() {
                into.line(format_args!("  columns that do not fit: {}", left_out.join(", ")));
            }
        }
        if self.left_out > 0 {
            let rows = plural(self.left_out as u64, "more row", "more rows");
            into.line(format_args!("  {rows}: --limit shows them"));
        }
    }

    /// The columns that have values: the others waste width.
    fn used(&self, is_wide: bool) -> Vec<usize> {
        let has_value = |row: &Vec<Cell>, at| row.get(at).is_some_and(|cell| cell_text(cell) != UNKNOWN);
        let columns = self.columns.iter().enumerate().filter(|(_, column)| is_wide || column.is_short);
        columns.map(|(at, _)| at).filter(|at| self.rows.iter().any(|row| has_value(row, *at))).collect()
    }

    /// Header and rows of the short columns, and the names of columns left out: if the lines are too wide, long texts
    /// are cut, then the last columns dropped.
    pub(crate) fn fitting_lines(&self, width: Option<usize>) -> (Vec<String>, Vec<&'static str>) {
        let mut columns = self.used(false);
        let Some(width) = width.filter(|width| self.width(&columns, usize::MAX) > *width) else {
            return (self.lines(&columns, usize::MAX), Vec::new());
        };
        // Paths of a program's ranges can be longer than a line.
        let mut left_out = Vec::new();
        while self.width(&columns, width / 2) > width && columns.len() > 2 {
            left_out.extend(columns.pop().and_then(|at| self.columns.get(at)).map(|column| column.name));
        }
        left_out.reverse();
        (self.lines(&columns, width / 2), left_out)
    }

    /// All columns, in as many blocks as the width takes. Each block begins with the columns that tell rows apart.
    fn blocks(&self, width: usize) -> Vec<String> {
        let columns = self.used(true);
        if self.width(&columns, usize::MAX) <= width {
            return self.lines(&columns, usize::MAX);
        }
        let names = (1..columns.len()).find(|names| self.tells_apart(columns.get(..*names).unwrap_or_default()));
        let (key, mut rest) = columns.split_at(names.unwrap_or(1).min(3).min(columns.len()));
        // A text has the whole line but for the key.
        let most = width.saturating_sub(self.width(key, width / 2) + 2).max(width / 2);
        let mut lines = Vec::new();
        while !rest.is_empty() {
            let fits = |more: &usize| self.width(&[key, &rest[..*more]].concat(), most) <= width;
            let (here, later) = rest.split_at((1..=rest.len()).take_while(fits).last().unwrap_or(1));
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend(self.lines(&[key, here].concat(), most));
            rest = later;
        }
        lines
    }

    fn tells_apart(&self, columns: &[usize]) -> bool {
        let mut seen = BTreeSet::new();
        self.rows
            .iter()
            .all(|row| seen.insert(columns.iter().filter_map(|at| row.get(*at)).map(cell_text).collect::<Vec<_>>()))
    }

    /// How wide the lines of these columns are, with texts of at most `most` characters.
    fn width(&self, columns: &[usize], most: usize) -> usize {
        let width = |at: &usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(*at)).map(cell_text);
            let cells = cells.map(|text| names::columns(&text).min(most));
            cells.chain(self.columns.get(*at).map(|column| column.name.len())).max().unwrap_or(0) + 2
        };
        columns.iter().map(width).sum()
    }

    fn lines(&self, columns: &[usize], most: usize) -> Vec<String> {
        let side = |at: usize| {
            let is_text = |row: &Vec<Cell>| matches!(row.get(at), Some(Cell::Text(_)));
            if self.rows.iter().any(is_text) { Side::Left } else { Side::Right }
        };
        let heads = columns.iter().filter_map(|at| Some((self.columns.get(*at)?.name, side(*at))));
        let mut table = Table::new(&heads.collect::<Vec<_>>());
        for row in &self.rows {
            // The text that ends a line stays whole: nothing is beside it.
            let most = |at: &usize| if columns.last() == Some(at) { usize::MAX } else { most };
            let cells = columns.iter().filter_map(|at| Some(shortened(&cell_text(row.get(*at)?), most(at))));
            table.row(cells.collect());
        }
        table.lines().collect()
    }

    pub(crate) fn csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let write = "cannot write CSV";
        writer.write_record(self.columns.iter().map(|column| column.name)).context(write)?;
        for row in &self.rows {
            writer.write_record(row.iter().map(plain)).context(write)?;
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error()).context(write)?;
        String::from_utf8(bytes).context(write)
    }
}

/// `None` if it is no terminal. One that does not know its width has that of `COLUMNS`, or 80.
fn width_of(terminal: &Term) -> Option<usize> {
    let own = || terminal.size_checked().map(|(_, width)| usize::from(width));
    let stated = || env::var("COLUMNS").ok()?.parse().ok();
    let is_width = |width: &usize| *width > 0;
    terminal.is_term().then(|| own().filter(is_width).or_else(|| stated().filter(is_width)).unwrap_or(80))
}

/// The width for tables: also that of stderr, because a pager shows what stdout gets.
fn terminal_width() -> Option<usize> {
    width_of(&Term::stdout()).or_else(|| width_of(&Term::stderr()))
}

/// The sort key of a cell. Empty cells come last.
fn value(cell: Option<&Cell>) -> f64 {
    match cell {
        Some(Cell::Count(number) | Cell::Bytes(number)) => real(*number),
        Some(
            Cell::Time(number)
            | Cell::Rate(number)
            | Cell::Number(number)
            | Cell::Share(number)
            | Cell::Change(number)
            | Cell::Probability(number),
        ) => *number,
        Some(Cell::Text(_) | Cell::None) | None => f64::NEG_INFINITY,
    }
}

pub(crate) fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) if text.is_empty() => UNKNOWN.to_owned(),
        Cell::Text(text) => text.clone(),
        Cell::Count(number) => count(*number),
        Cell::Bytes(number) => bytes(*number),
        Cell::Time(ns) if *ns < 0.0 => format!("−{}", time(whole(-ns))),
        Cell::Time(ns) => time(whole(*ns)),
        Cell::Rate(rate) => bandwidth(*rate),
        Cell::Number(number) => format!("{number:.2}"),
        Cell::Share(share) => format!("{:.1} %", share * 100.0).replace('-', "−"),
        Cell::Change(share) => format!("{:+.1} %", share * 100.0).replace('-', "−"),
        Cell::Probability(share) => probability(*share),
        Cell::None => UNKNOWN.to_owned(),
    }
}

/// Shown where there is no value.
pub(crate) const UNKNOWN: &str = "–";

fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => inert(text),
        Cell::Count(number) | Cell::Bytes(number) => number.to_string(),
        Cell::Time(number)
        | Cell::Rate(number)
        | Cell::Number(number)
        | Cell::Share(number)
        | Cell::Change(number)
        | Cell::Probability(number) => number.to_string(),
        Cell::None => String::new(),
    }
}

/// A text that no spreadsheet takes for a formula, by OWASP's rules for "CSV injection".
fn inert(text: &str) -> String {
    let shown = visible(text);
    let is_number = shown.parse().is_ok_and(f64::is_finite);
    let is_formula = shown.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) && !is_number;
    let quote = if is_formula { "'" } else { "" };
    format!("{quote}{shown}")
}

const NEXT: &str = "  next: ";

/// Text for people. Names are escaped, so they cannot break its lines.
#[derive(Debug, Default)]
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn line(&mut self, text: impl Display) {
        self.0.push_str(&visible(&text.to_string()));
        self.0.push('\n');
    }

    /// An indented sentence.
    pub(crate) fn sentence(&mut self, text: impl Display) {
        self.line(format_args!("  {text}"));
    }

    /// The command that leads on, to copy.
    pub(crate) fn next(&mut self, command: impl Display) {
        self.line(format_args!("{NEXT}{command}"));
    }

    /// The line of a verdict, on a terminal in bold; in red if something is wrong now.
    pub(crate) fn headline(&mut self, line: &str, is_alarm: bool) {
        let style = console::Style::new().for_stdout().bold();
        let style = if is_alarm { style.red() } else { style };
        self.0.push_str(&style.apply_to(visible(line)).to_string());
        self.0.push('\n');
    }

    pub(crate) fn paragraph(&mut self, text: impl Display) {
        self.0.push('\n');
        self.line(text);
    }

    /// On a terminal in lines that fit. In a pipe a sentence stays one line, which grep finds whole.
    fn wrapped(&self, width: Option<usize>) -> Cow<'_, str> {
        let Some(width) = width else { return Cow::Borrowed(&self.0) };
        Cow::Owned(self.0.lines().map(|line| wrapped(line, width) + "\n").collect())
    }
}

/// A line with breaks between words where it is too long. Commands and long words, such as paths, stay whole: a
/// terminal copies what it broke itself without the break.
fn wrapped(line: &str, width: usize) -> String {
    if measure_text_width(line) <= width || line.starts_with(NEXT) {
        return line.to_owned();
    }
    let begin = line.len() - line.trim_start().len();
    let indent = " ".repeat((begin + 2).min(width / 2));
    let mut text = line[..begin].to_owned();
    let mut used = begin;
    for (number, word) in words(&line[begin..]).into_iter().enumerate() {
        let length = measure_text_width(word);
        if number > 0 && used + 1 + length > width {
            text = text.trim_end().to_owned() + "\n" + &indent;
            used = indent.len();
        } else if number > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text
}

/// The words of a line; a number and its unit are one.
fn words(line: &str) -> Vec<&str> {
    const UNITS: [&str; 17] = [
        "%", "ns", "µs", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "B/s", "kB/s", "MB/s", "GB/s", "TB/s",
    ];
    let mut words: Vec<&str> = Vec::new();
    let mut from = 0;
    for (at, _) in line.match_indices(' ').chain([(line.len(), "")]) {
        let next = line[at..].trim_start_matches(' ').split(' ').next().unwrap_or_default();
        let is_number = line[from..at].ends_with(|last: char| last.is_ascii_digit());
        let is_unit = UNITS.contains(&next.trim_matches(|sign: char| sign.is_ascii_punctuation() && sign != '%'));
        if at == line.len() || !(is_number && is_unit) {
            words.push(&line[from..at]);
            from = (at + 1).min(line.len());
        }
    }
    words
}

pub(crate) fn text(text: &Text) -> Result<()> {
    exact(&text.wrapped(width_of(&Term::stdout())))
}

/// Prints a result in a format with its own escaping. A closed stdout (`nccl-otf2 info trace | head`) is no failure.
pub(crate) fn exact(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// What a verb says first, in its JSON: `verdict.line`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct VerdictLine {
    pub(crate) line: String,
}

/// Prints a document whose schema `--json-schema` prints: see `pages`.
pub(crate) fn json(value: &(impl Serialize + JsonSchema)) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    text.push('\n');
    exact(&text)
}

pub(crate) fn schema(schema: &Schema) -> Result<()> {
    let mut text = serde_json::to_string_pretty(schema).context("cannot write JSON")?;
    text.push('\n');
    exact(&text)
}

/// Prints a note on stderr, in one line. If stderr is closed, nothing can be done.
pub(crate) fn note(text: impl Display) {
    let mut line = Text::default();
    line.line(text);
    notes(&line);
}

pub(crate) fn notes(Text(text): &Text) {
    let text = Text(format!("nccl-otf2: {text}"));
    let _stderr_is_closed = io::stderr().lock().write_all(text.wrapped(width_of(&Term::stderr())).as_bytes());
}

pub(crate) fn error(error: &anyhow::Error) {
    note(format_args!("error: {}", host::explain_write_error(reasons(error))));
}

/// An error and its causes without repetition: some libraries' errors end with the text of their cause.
pub(crate) fn reasons(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for reason in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = reason;
        } else if !text.ends_with(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
    }
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

pub(crate) type TableColumn<'c, R> = (&'c str, Side, fn(&R) -> String);

/// A table for people.
#[derive(Debug)]
pub(crate) struct Table(comfy_table::Table);

impl Table {
    pub(crate) fn new(columns: &[(&str, Side)]) -> Self {
        let mut table = comfy_table::Table::new();
        *table.style_mut() = NOTHING;
        table.set_header(columns.iter().map(|(name, _)| *name));
        for (column, (_, side)) in table.column_iter_mut().zip(columns) {
            column.set_cell_alignment(match side {
                Side::Left => CellAlignment::Left,
                Side::Right => CellAlignment::Right,
            });
        }
        Self(table)
    }

    pub(crate) fn from_rows<R>(rows: impl IntoIterator<Item = R>, columns: &[TableColumn<'_, R>]) -> Self {
        let mut table = Self::new(&columns.iter().map(|(name, side, _)| (*name, *side)).collect::<Vec<_>>());
        rows.into_iter().for_each(|row| table.row(columns.iter().map(|(.., cell)| cell(&row)).collect()));
        table
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.0.add_row(cells.iter().map(|cell| visible(cell)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.lines().map(|line| format!(" {}", line.trim_end()))
    }

    /// In a terminal's width: the widest cells go on in further lines, or the table is folded behind its first column.
    pub(crate) fn print(&self, into: &mut Text) {
        self.lines_within(terminal_width().unwrap_or(usize::MAX)).into_iter().for_each(|line| into.line(line));
    }

    fn lines_within(&self, width: usize) -> Vec<String> {
        let widths: Vec<usize> = self.0.column_max_content_widths().iter().map(|most| usize::from(*most) + 2).collect();
        let all: Vec<usize> = (0..widths.len()).collect();
        let sum: usize = widths.iter().sum();
        let widest = widths.iter().max().copied().unwrap_or(0);
        let width = width - 1;
        if sum - widest + widest.min(LEAST_OF_CELL) <= width || all.len() < 2 {
            return self.part(&all, &widths, width);
        }
        let (mut lines, mut at) = (Vec::new(), 1);
        while at < all.len() {
            let first = at;
            let mut used = widths[0].min(width / 2);
            while at < all.len() && (at == first || used + widths[at] <= width) {
                used += widths[at];
                at += 1;
            }
            lines.extend((first > 1).then(String::new));
            lines.extend(self.part(&[&all[..1], &all[first..at]].concat(), &widths, width));
        }
        lines
    }

    /// Some columns. If they are too wide, the widest gives what is missing.
    fn part(&self, shown: &[usize], widths: &[usize], width: usize) -> Vec<String> {
        let mut table = self.0.clone();
        let is_too_wide = shown.iter().map(|at| widths[*at]).sum::<usize>() > width;
        let widest = shown.iter().copied().max_by_key(|at| widths[*at]).filter(|_| is_too_wide);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        for (at, column) in table.column_iter_mut().enumerate().filter(|(at, _)| Some(*at) != widest) {
            let is_shown = shown.contains(&at);
            column.set_constraint(if is_shown { ColumnConstraint::ContentWidth } else { ColumnConstraint::Hidden });
        }
        Self(table).lines().collect()
    }
}

/// Progress of long work, shown on stderr if it is a terminal.
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
        self.bar.suspend(|| note(remark));
    }
}

/// The present date, for names of directories.
pub(crate) fn now() -> String {
    settings::date_and_time(journal::clock::realtime_ns() / 1_000_000_000)
}

/// A time in ns since 1970, as UTC, such as `2026-11-21 10:03:12 UTC`.
pub(crate) fn moment(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into())
        .map_or_else(|_| "an unknown day".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds, such as 10 or 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_parted_from_its_unit() {
        let line = "  Ranks spent 3.134 s in operations: 37.8 % waiting, 62.1 % transfer (± 1.53 ms), in 5 steps.";
        for width in 1..measure_text_width(line) {
            let text = wrapped(line, width);
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            assert_eq!(lines.join(" "), line.trim(), "{width}");
            for unit in ["s in", "% ", "ms", "s "] {
                assert!(lines.iter().all(|line| !line.starts_with(unit)), "{text}");
            }
        }
        assert_eq!(words("a  b 5"), ["a", "", "b", "5"]);
    }

    mod number_table {
        use crate::output::*;

        #[test]
        fn no_cell_of_csv_is_a_formula_or_acts_on_a_terminal() {
            for (text, cell) in [
                ("=1+1", "'=1+1"),
                ("@SUM(A1)", "'@SUM(A1)"),
                ("+cmd|x", "'+cmd|x"),
                ("-2+3", "'-2+3"),
                ("＝1", "'＝1"),
                ("\t=1", r"\t=1"),
                ("\r=1\n=2\u{1b}[2J", r"\r=1\n=2\u{1b}[2J"),
                ("=\"a, b\"", "'=\"a, b\""),
                ("-5", "-5"),
                ("+3.25e9", "+3.25e9"),
                ("-inf", "'-inf"),
                ("rank 1", "rank 1"),
            ] {
                assert_eq!(plain(&Cell::Text(text.to_owned())), cell, "{text:?}");
            }
            let sheet = NumberTable::from_rows(
                "",
                [-5.0, 3.0],
                &[("time", |at| Cell::Time(*at)), ("name", |_| Cell::Text("-x, y".into()))],
            );
            assert_eq!(sheet.csv().expect("CSV"), "time,name\n-5,\"'-x, y\"\n3,\"'-x, y\"\n");
        }

        #[test]
        fn long_texts_do_not_push_numbers_off_the_terminal() {
            fn name(at: u64) -> String {
                format!("Xla{}{at}", "x".repeat(200))
            }
            let sheet = NumberTable::from_rows(
                "ranges",
                [1, 2],
                &[("range", |at| Cell::Text(name(*at))), ("count", |_| Cell::Count(7))],
            );
            let (lines, _) = sheet.fitting_lines(Some(80));
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
            assert!(lines[1].contains("Xla") && lines[1].ends_with("x1      7"), "{lines:#?}");
            assert!(sheet.fitting_lines(None).0[1].contains(&name(1)));
            assert_eq!(sheet.fitting_lines(Some(1)).0.len(), 3, "a terminal of one column");
            let ends_in_text = NumberTable::from_rows(
                "ranges",
                [1, 2],
                &[("count", |_| Cell::Count(7)), ("range", |at| Cell::Text(name(*at)))],
            );
            assert!(ends_in_text.fitting_lines(Some(80)).0[1].ends_with(&name(1)), "no number is behind it");
        }

        #[test]
        fn a_wide_table_is_folded_and_a_short_one_names_what_it_leaves_out() {
            fn value(row: &u64) -> Cell {
                Cell::Count(row * 1_000_000)
            }
            let sheet = NumberTable::from_rows(
                "ranks",
                [1, 3, 2],
                &[
                    ("function", |_| Cell::Text("ncclAllReduce".to_owned())),
                    ("bytes", value),
                    ("a_long_name", |_| Cell::Text("x".to_owned())),
                    ("another_long_name", value),
                    ("empty", |_| Cell::None),
                    ("last", value),
                ],
            );
            let lines = sheet.blocks(60);
            assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
            let heads: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.contains("bytes")).collect();
            assert_eq!(heads.len(), 2, "{lines:#?}");
            assert!(heads[0].contains("another_long_name") && heads[1].contains("last"), "{lines:#?}");
            assert_eq!(sheet.fitting_lines(Some(60)).1, ["last"]);
        }
    }

    mod table {
        use crate::output::*;

        #[test]
        fn the_widest_cell_is_continued_or_the_table_is_folded() {
            let mut table = Table::new(&[("rank", Side::Right), ("process", Side::Left), ("where", Side::Left)]);
            table.row(vec!["0".to_owned(), "node0:4711".to_owned(), "waits for 歩進み ".repeat(5)]);
            let lines = table.lines_within(60);
            assert!(lines.len() > 2 && lines.iter().all(|line| measure_text_width(line) <= 60), "{lines:#?}");
            assert!(
                lines[1].starts_with("     0  node0:4711  waits") && lines[2].trim().starts_with("for 歩"),
                "{lines:#?}"
            );
            let lines = table.lines_within(24);
            assert!(lines.iter().all(|line| measure_text_width(line) <= 24), "{lines:#?}");
            let heads: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| line.contains("rank")).collect();
            assert_eq!(heads, ["rank  process", "rank  where"], "{lines:#?}");
        }

        #[test]
        fn lines_are_broken_between_words() {
            let mut text = Text::default();
            text.sentence("a sentence of some words");
            text.line("    → /a/very/long/path");
            text.next("nccl-otf2 report trace");
            let sentence = "  a sentence\n    of some\n    words\n";
            let whole = "    →\n      /a/very/long/path\n  next: nccl-otf2 report trace\n";
            assert_eq!(text.wrapped(Some(14)), format!("{sentence}{whole}"));
            assert_eq!(text.wrapped(None).lines().count(), 3);
        }
    }

    mod print {
        use crate::output::*;

        #[test]
        fn a_cause_is_said_once() {
            let reading_error = |source: io::Error| otf2::Error::Io { operation: "read", path: "x.evt".into(), source };
            let error = anyhow::Error::new(reading_error(ErrorKind::NotFound.into())).context("no archive");
            assert_eq!(reasons(&error), "no archive: read x.evt: entity not found");
            let error = anyhow::anyhow!("cause").context("what");
            assert_eq!(reasons(&error), "what: cause");
        }
    }
}
