//! Formats an event of an archive as a line for people or as JSON.

use analysis::Trace;
use anyhow::Result;
use otf2::{Event, EventKind, LocationRef};

use super::super::output::Output;
use super::super::text::{Columns, Line};
use super::{ranks, record};
use crate::journals::value::{Json, List, Value, pairs};
use crate::units;

pub(super) struct Shown<'a> {
    pub(super) location: LocationRef,
    pub(super) event: &'a Event,
    pub(super) after_ns: u64,
    pub(super) depth: usize,
    pub(super) duration_ns: Option<u64>,
}

pub(super) struct Printer<'a> {
    trace: &'a Trace,
    columns: Option<Columns>,
}

impl<'a> Printer<'a> {
    /// Column widths are computed from the wanted locations, because the lines are not known yet.
    pub(super) fn new(trace: &'a Trace, wanted: &[LocationRef], json: bool) -> Self {
        let width = |text: &dyn Fn(LocationRef) -> String, least: &str| {
            wanted.iter().map(|location| text(*location).chars().count()).max().unwrap_or(0).max(least.len())
        };
        let columns = (!json).then(|| Columns {
            location: width(&|location| trace.location_name(location), "location"),
            whose: width(&|location| ranks::text(trace, location), "rank"),
        });
        Self { trace, columns }
    }

    pub(super) fn head(&self, output: &mut Output) -> Result<()> {
        match &self.columns {
            Some(columns) => output.head(&columns.head("location")),
            None => Ok(()),
        }
    }

    /// Prints a line. Returns `false` if no more lines are wanted.
    pub(super) fn line(&self, shown: &Shown<'_>, output: &mut Output) -> Result<bool> {
        match &self.columns {
            Some(columns) => output.line(columns.line(&self.described(shown))),
            None => {
                let mut json = Json::default();
                json.line(|json| self.object(shown).into_iter().for_each(|(name, value)| json.put(name, value)));
                output.line(json.text())
            }
        }
    }

    fn described(&self, shown: &Shown<'_>) -> Line {
        let kind = &shown.event.kind;
        let mut what = match kind {
            EventKind::Enter(region) => format!("enter {}", self.trace.region_name(*region)),
            EventKind::Leave(region) => format!("leave {}", self.trace.region_name(*region)),
            _ => format!("· {}", record::name(kind)),
        };
        if !matches!(kind, EventKind::Enter(_) | EventKind::Leave(_)) {
            let mut fields = record::fields(self.trace, kind);
            fields.retain(|(name, _)| !name.ends_with("Ref"));
            what += &pairs(&fields);
        }
        what += &pairs(&record::attributes(self.trace, shown.event));
        Line {
            after_ns: shown.after_ns,
            duration: shown.duration_ns.map(units::time),
            location: self.trace.location_name(shown.location),
            whose: ranks::text(self.trace, shown.location),
            depth: shown.depth,
            what,
        }
    }

    fn object(&self, shown: &Shown<'_>) -> List<'_> {
        let (event, location) = (shown.event, shown.location);
        let mut list = vec![
            ("time", event.time.into()),
            ("location", self.trace.location_name(location).into()),
            ("locationRef", location.get().into()),
            ("event", record::name(&event.kind).into()),
        ];
        list.extend(record::fields(self.trace, &event.kind));
        let attributes = record::attributes(self.trace, event);
        if !attributes.is_empty() {
            list.push(("attributes", Value::Attributes(attributes)));
        }
        list
    }
}
