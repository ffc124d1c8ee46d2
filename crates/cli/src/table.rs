//! Tables for people.

use std::fmt::Write as _;

/// Which side of a column its cells are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Side)]) -> Self {
        Self {
            columns: columns
                .iter()
                .map(|(name, side)| ((*name).to_owned(), *side))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table, indented.
    pub(crate) fn print(&self, into: &mut String) {
        let headings: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let widths: Vec<usize> = (0..headings.len())
            .map(|column| {
                let lines = self.rows.iter().chain([&headings]);
                let cells = lines.filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in [&headings].into_iter().chain(&self.rows) {
            let mut line = String::from(" ");
            for ((cell, (_, side)), width) in row.iter().zip(&self.columns).zip(&widths) {
                // Writing to a string cannot fail.
                let _ = match side {
                    Side::Left => write!(line, " {cell:<width$} "),
                    Side::Right => write!(line, " {cell:>width$} "),
                };
            }
            into.push_str(line.trim_end());
            into.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("name", Side::Left), ("µs", Side::Right)]);
        table.row(vec!["a".to_owned(), "100".to_owned()]);
        table.row(vec!["longer".to_owned(), "µ".to_owned()]);
        let mut text = String::new();
        table.print(&mut text);
        assert_eq!(text, "  name     µs\n  a       100\n  longer    µ\n");
    }
}
