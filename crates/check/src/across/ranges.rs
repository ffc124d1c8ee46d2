//! Ranges of the program: as many as the archive states, and around the calls that name them. A call that NCCL's
//! interface reports has no range of NCCL's around it.

use std::collections::BTreeMap;

use analysis::{Trace, is_merged};
use nccl_events::Kind;
use nccl_events::archive::{OTHER_RANGES, PATH_SEPARATOR, RegionClass, path_of_ranges};
use otf2::{Event, EventKind, LocationRef, RegionRef};
use small_sort::Gather;

use crate::findings::Findings;
use crate::rules::Rule;

schema::fields! {
    struct CallFields {
        ranges: Ranges,
    }
}

#[derive(Clone, Copy)]
enum Region<'a> {
    Range(&'a str),
    Mark,
    Call(&'a str, Option<Kind>),
}

pub(super) struct UserRanges<'a> {
    trace: &'a Trace,
    regions: BTreeMap<RegionRef, Region<'a>>,
    open: Vec<Option<Region<'a>>>,
    /// Whether the location had a range of the program so far. Without any, its calls have those of another thread.
    has_ranges: bool,
    found: u64,
}

impl<'a> UserRanges<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        let regions = trace.definitions.regions.iter().filter_map(|(reference, region)| {
            let it = trace.region(*reference)?;
            let name = trace.definitions.string(region.name).unwrap_or_default();
            let region = match it.class {
                RegionClass::User => Region::Range(name),
                RegionClass::Mark => Region::Mark,
                RegionClass::Api => Region::Call(name, it.kind),
                _ => return None,
            };
            Some((*reference, region))
        });
        Self { trace, regions: regions.gather(), open: Vec::new(), has_ranges: false, found: 0 }
    }

    pub(super) fn next_location(&mut self) {
        self.open.clear();
        self.has_ranges = false;
    }

    pub(super) fn event(&mut self, location: LocationRef, event: &Event, findings: &mut Findings) {
        match event.kind {
            EventKind::Enter(region) => {
                let region = self.regions.get(&region).copied();
                match region {
                    Some(Region::Call(name, kind)) => self.call(location, event, (name, kind), findings),
                    Some(Region::Range(_)) => {
                        self.has_ranges = true;
                        self.found += 1;
                    }
                    Some(Region::Mark) => self.found += 1,
                    None => {}
                }
                self.open.push(region);
            }
            EventKind::Leave(_) => {
                self.open.pop();
            }
            _ => {}
        }
    }

    fn call(&self, location: LocationRef, event: &Event, (name, kind): (&str, Option<Kind>), findings: &mut Findings) {
        let at = (self.trace, location);
        let is_reported = matches!(kind, Some(Kind::CollApi | Kind::P2pApi));
        let is_same = |open: &Region<'_>| matches!(open, Region::Call(around, None) if *around == name);
        if is_reported && self.open.iter().flatten().any(is_same) {
            findings.at(at, Some(event.time), Rule::ShownOnce, format!("{name} is inside another {name}"));
        }
        let fields: CallFields<'_> = self.trace.read_fields(&event.attributes);
        // Parts of a group have no attributes.
        if fields.ranges.is_none() && !is_reported {
            return;
        }
        let stated = fields.ranges.unwrap_or_default();
        let open = self.open.iter().flatten().filter_map(|open| match open {
            Region::Range(name) => Some(*name),
            _ => None,
        });
        let open: Vec<&str> = open.collect();
        if !self.fits(stated, &open) {
            let message = format!("{name} names the ranges {stated:?}, and is in {:?}", path_of_ranges(&open));
            findings.at(at, Some(event.time), Rule::RangesAround, message);
        }
    }

    /// Whether the ranges that a call names are those open around it. Cut instances can leave a range too early.
    fn fits(&self, stated: &str, open: &[&str]) -> bool {
        if is_merged(&self.trace.archive) || stated == OTHER_RANGES || stated == path_of_ranges(open) {
            return true;
        }
        if !self.has_ranges && self.trace.statements.counts.ranges_user > 0 {
            return true;
        }
        let mut names = stated.split(PATH_SEPARATOR);
        let is_named = |open: &&str| names.any(|name| name == path_of_ranges([open]));
        self.trace.statements.counts.clamped > 0 && open.iter().all(is_named)
    }

    pub(super) fn end(&self, findings: &mut Findings) {
        let counts = &self.trace.statements.counts;
        let stated = counts.ranges_user.saturating_add(counts.ranges_marks);
        if stated != self.found && !is_merged(&self.trace.archive) {
            let message = format!("{stated} ranges and marks are stated, {} are in the archive", self.found);
            findings.general(Rule::RangesWritten, message);
        }
    }
}
