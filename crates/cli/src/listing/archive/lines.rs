//! An event of an archive as a line: for people, or as JSON.

use anyhow::Result;
use otf2::{EventKind, LocationRef};

use super::super::fields::Value;
use super::super::lines::Object;
use super::super::output::Output;
use super::super::text::{Columns, Row, value_text};
use super::rows::Rows;
use super::{Shown, record};
use crate::archive::Trace;
use crate::units;

/// Writes lines.
pub(super) struct Printer<'a> {
    trace: &'a Trace,
    rows: &'a Rows,
    /// None for JSON.
    columns: Option<Columns>,
}

impl<'a> Printer<'a> {
    /// The widths of columns are those of the rows that are wanted: the lines themselves are not known yet.
    pub(super) fn new(
        trace: &'a Trace,
        rows: &'a Rows,
        wanted: &[LocationRef],
        json: bool,
    ) -> Self {
        let width = |text: &dyn Fn(LocationRef) -> String, least: &str| {
            let widths = wanted.iter().map(|row| text(*row).chars().count());
            widths.max().unwrap_or(0).max(least.len())
        };
        let columns = (!json).then(|| Columns {
            place: width(&|row| trace.location_name(row), "row"),
            whose: width(&|row| rows.text(row), "rank"),
        });
        Self {
            trace,
            rows,
            columns,
        }
    }

    /// The heads of the columns.
    ///
    /// # Errors
    ///
    /// When stdout cannot be written.
    pub(super) fn head(&self, output: &mut Output) -> Result<()> {
        match &self.columns {
            Some(columns) => output.head(&columns.head("row")),
            None => Ok(()),
        }
    }

    /// A line. False when no more are wanted.
    ///
    /// # Errors
    ///
    /// When stdout cannot be written.
    pub(super) fn line(&self, shown: &Shown<'_>, output: &mut Output) -> Result<bool> {
        match &self.columns {
            Some(columns) => output.line(&columns.line(&self.row(shown))),
            None => output.line(&self.object(shown).end()),
        }
    }

    fn row(&self, shown: &Shown<'_>) -> Row {
        let kind = &shown.event.kind;
        let mut what = match kind {
            EventKind::Enter(region) => format!("enter {}", self.trace.region_name(*region)),
            EventKind::Leave(region) => format!("leave {}", self.trace.region_name(*region)),
            _ => format!("· {}", record::name(kind)),
        };
        if !matches!(kind, EventKind::Enter(_) | EventKind::Leave(_)) {
            for (name, value) in record::fields(self.trace, kind) {
                if !name.ends_with("Ref") {
                    what.push_str(&format!(" {name}={}", value_text(&value)));
                }
            }
        }
        for (name, value) in record::attributes(self.trace, shown.event) {
            what.push_str(&format!(" {name}={}", value_text(&value)));
        }
        Row {
            after_ns: shown.after_ns,
            duration: shown.duration_ns.map(units::time),
            place: self.trace.location_name(shown.location),
            whose: self.rows.text(shown.location),
            depth: shown.depth,
            what,
        }
    }

    fn object(&self, shown: &Shown<'_>) -> Object {
        let kind = &shown.event.kind;
        let object = Object::new()
            .number("time", shown.event.time)
            .text("location", &self.trace.location_name(shown.location))
            .number("locationRef", shown.location.get())
            .text("event", record::name(kind))
            .list(&record::fields(self.trace, kind));
        let attributes: Vec<(String, Value)> = record::attributes(self.trace, shown.event);
        if attributes.is_empty() {
            return object;
        }
        let attributes = attributes
            .iter()
            .fold(Object::new(), |object, (name, value)| {
                object.value(name, value)
            });
        object.object("attributes", attributes)
    }
}
