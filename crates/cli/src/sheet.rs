//! A table of numbers with units: sorted, cut to the width of the terminal, or as CSV.

use analysis::units::{real, whole};
use anyhow::{Context as _, Result, bail};
use console::Term;
use nccl_events::visible;

use crate::print::Text;
use crate::table::{Side, Table};
use crate::units::{bandwidth, bytes, count, plural, time};

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
    None,
}

/// A column: its name, and whether it is also shown when the table is one of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) is_short: bool,
}

pub(crate) type ColumnOf<R> = (&'static str, fn(&R) -> Cell);

#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) title: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    pub(crate) empty: &'static str,
    /// A line below the title.
    pub(crate) remark: Option<String>,
    left_out: usize,
}

impl Sheet {
    pub(crate) fn of<R>(title: &'static str, rows: impl IntoIterator<Item = R>, columns: &[ColumnOf<R>]) -> Self {
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
        Self { title, columns, rows: Vec::new(), empty: "nothing was recorded", remark: None, left_out: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|it| it.name == column)
    }

    /// Sorts the rows, numbers descending and words alphabetically, and keeps the first `limit`.
    pub(crate) fn arrange(&mut self, sort: Option<&str>, limit: Option<usize>) -> Result<()> {
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
        let terminals = [Term::stdout(), Term::stderr()];
        let width = terminals.iter().find_map(|it| it.size_checked()).map(|(_, width)| usize::from(width));
        into.paragraph(self.title);
        if self.rows.is_empty() {
            into.line(format_args!("  {}", self.empty));
            return;
        }
        if let Some(remark) = &self.remark {
            into.line(format_args!("  {remark}"));
        }
        self.within(is_wide, width).into_iter().for_each(|line| into.line(line));
        if self.left_out > 0 {
            let rows = plural(self.left_out as u64, "more row", "more rows");
            into.line(format_args!("  {rows}: --limit shows them"));
        }
    }

    /// Header and rows. If the lines are too wide, long texts are cut, then the last columns dropped.
    pub(crate) fn within(&self, is_wide: bool, width: Option<usize>) -> Vec<String> {
        let mut columns: Vec<usize> = (0..self.columns.len()).collect();
        columns.retain(|at| is_wide || self.columns.get(*at).is_some_and(|column| column.is_short));
        // Columns with only empty cells waste width.
        columns.retain(|at| self.rows.iter().any(|row| row.get(*at).is_some_and(|cell| *cell != Cell::None)));
        let lines = self.lines(&columns, usize::MAX);
        let is_within = |lines: &[String], width| lines.iter().all(|line| line.chars().count() <= width);
        let Some(width) = width.filter(|width| !is_within(&lines, *width)) else {
            return lines;
        };
        // Paths of a program's ranges can be longer than a line.
        let mut lines = self.lines(&columns, width / 2);
        while !is_within(&lines, width) && columns.len() > 2 {
            columns.pop();
            lines = self.lines(&columns, width / 2);
        }
        lines
    }

    fn lines(&self, columns: &[usize], most: usize) -> Vec<String> {
        let side = |at: usize| {
            let is_text = |row: &Vec<Cell>| matches!(row.get(at), Some(Cell::Text(_)));
            if self.rows.iter().any(is_text) { Side::Left } else { Side::Right }
        };
        let heads = columns.iter().filter_map(|at| Some((self.columns.get(*at)?.name, side(*at))));
        let mut table = Table::new(&heads.collect::<Vec<_>>());
        for row in &self.rows {
            table.row(columns.iter().filter_map(|at| row.get(*at)).map(|cell| shortened(&text(cell), most)).collect());
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

/// The sort key of a cell. Empty cells come last.
fn value(cell: Option<&Cell>) -> f64 {
    match cell {
        Some(Cell::Count(number) | Cell::Bytes(number)) => real(*number),
        Some(Cell::Time(number) | Cell::Rate(number) | Cell::Number(number) | Cell::Share(number)) => *number,
        Some(Cell::Text(_) | Cell::None) | None => f64::NEG_INFINITY,
    }
}

pub(crate) fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(number) => count(*number),
        Cell::Bytes(number) => bytes(*number),
        Cell::Time(ns) if *ns < 0.0 => format!("−{}", time(whole(-ns))),
        Cell::Time(ns) => time(whole(*ns)),
        Cell::Rate(rate) => bandwidth(*rate),
        Cell::Number(number) => format!("{number:.2}"),
        Cell::Share(share) => format!("{:.1} %", share * 100.0).replace('-', "−"),
        Cell::None => "-".to_owned(),
    }
}

/// Without the middle if it has more chars: names of ranges often differ at the end.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= most {
        return text.to_owned();
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    chars[..head].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect()
}

fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => inert(text),
        Cell::Count(number) | Cell::Bytes(number) => number.to_string(),
        Cell::Time(number) | Cell::Rate(number) | Cell::Number(number) | Cell::Share(number) => number.to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let sheet =
            Sheet::of("", [-5.0, 3.0], &[("time", |at| Cell::Time(*at)), ("name", |_| Cell::Text("-x, y".into()))]);
        assert_eq!(sheet.csv().expect("CSV"), "time,name\n-5,\"'-x, y\"\n3,\"'-x, y\"\n");
    }

    #[test]
    fn long_texts_do_not_push_numbers_off_the_terminal() {
        fn name(at: u64) -> String {
            format!("Xla{}{at}", "x".repeat(200))
        }
        let sheet =
            Sheet::of("ranges", [1, 2], &[("range", |at| Cell::Text(name(*at))), ("count", |_| Cell::Count(7))]);
        let lines = sheet.within(false, Some(80));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].contains("Xla") && lines[1].ends_with("x1      7"), "{lines:#?}");
        assert!(sheet.within(false, None)[1].contains(&name(1)));
    }
}
