//! Tables for people.

use comfy_table::CellAlignment;
use comfy_table::presets::NOTHING;
use nccl_events::visible;

use crate::print::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

pub(crate) type ColumnOf<'c, R> = (&'c str, Side, fn(&R) -> String);

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

    pub(crate) fn of<R>(rows: impl IntoIterator<Item = R>, columns: &[ColumnOf<'_, R>]) -> Self {
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

    pub(crate) fn print(&self, into: &mut Text) {
        self.lines().for_each(|line| into.line(line));
    }
}
