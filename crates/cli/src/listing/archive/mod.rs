//! Prints an archive event by event, in time order across locations.

mod printer;
mod ranks;
mod record;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use analysis::Trace;
use anyhow::{Context as _, Result, bail};
use nccl_events::Kind;
use nccl_events::archive::RegionClass;
use otf2::{Event, EventKind, LocationRef, RegionRef};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::output::Output;
use crate::archive;
use crate::exit::Exit;
use crate::journals::{Filter, range};
use crate::present::Present;
use crate::print;
use crate::units::plural;
use printer::{Printer, Shown};

pub(super) fn print(path: &Path, filter: &Filter, json: bool) -> Result<Exit> {
    let trace = archive::open(path)?;
    refuse_unknown(filter)?;
    let clock = Clock::of(&trace);
    let present = Present::of(&trace, clock.begin_ns, |comm| ranks::wants_comm(&trace, comm, filter));
    let comms = || trace.definitions.comms.keys();
    filter.refuse_absent(&present, |single| comms().any(|comm| ranks::wants_comm(&trace, *comm, single)))?;
    let locations = trace.definitions.locations.keys().copied();
    let wanted: Vec<LocationRef> =
        locations.filter(|location| trace.has_events(*location) && ranks::wanted(&trace, *location, filter)).collect();
    open_many_files();
    let mut output = Output::new(filter.limit);
    let mut reading = Reading {
        filter,
        trace: &trace,
        clock,
        open: BTreeMap::new(),
        is_held_back: true,
        printer: Printer::new(&trace, &wanted, json),
    };
    reading.printer.head(&mut output)?;
    let mut written = Ok(());
    trace
        .archive
        .for_each_event(&wanted, |location, event| match reading.event(location, event, &mut output) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                written = Err(error);
                ControlFlow::Break(())
            }
        })
        .context("the archive cannot be read, `nccl-otf2 check` says more")?;
    written?;
    if reading.is_held_back {
        reading.release(&mut output)?;
    }
    filter.refuse_nothing(&present, output.lines)?;
    output.finish()?;
    Ok(remark(&trace))
}

/// Prints what the archive states that it lacks.
fn remark(trace: &Trace) -> Exit {
    let (lost, problems) = (trace.statements.counts.lost(), trace.statements.problems.number.get());
    if lost > 0 {
        let calls = plural(lost, "call was", "calls were");
        print::note(format_args!("{}: {calls} not recorded", trace.anchor.display()));
    }
    if problems > 0 {
        let problems = plural(problems, "problem", "problems");
        print::note(format_args!(
            "{}: {problems} when it was written, which `nccl-otf2 info` lists",
            trace.anchor.display()
        ));
    }
    if trace.statements.has_gaps() { Exit::Problems } else { Exit::Well }
}

fn refuse_unknown(filter: &Filter) -> Result<()> {
    let kinds = || Kind::ALL.iter().map(|kind| kind.name()).chain([range::KIND]);
    let unknown =
        filter.unknown_kinds(|single| kinds().chain(record::NAMES.iter().copied()).any(|name| single.wants_kind(name)));
    let Some(kind) = unknown.first() else {
        return Ok(());
    };
    bail!(
        "--kind {kind}: there is no such kind; there are NCCL's {}; and OTF2's records {}",
        kinds().collect::<Vec<_>>().join(", "),
        record::NAMES.join(", ")
    );
}

/// libotf2 keeps a file open for every location, which can exceed the usual limit of 1024.
fn open_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit cannot be raised, libotf2's own error names the cause.
    let _as_it_was = setrlimit(Resource::Nofile, limit);
}

struct Clock {
    ticks_per_second: u64,
    begin_ns: u64,
}

impl Clock {
    fn of(trace: &Trace) -> Self {
        let clock = trace.definitions.clock.as_ref();
        let mut found =
            Self { ticks_per_second: clock.map_or(1_000_000_000, |clock| clock.timer_resolution.max(1)), begin_ns: 0 };
        found.begin_ns = found.ns(clock.map_or(0, |clock| clock.global_offset));
        found
    }

    fn ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

struct Open {
    region: RegionRef,
    ns: u64,
    /// The kind of NCCL event that the region shows, or that its enclosing region shows; or a range of the program.
    kind: Option<&'static str>,
    /// The ENTER, held back because it precedes the wanted time.
    held_back: Option<Event>,
}

struct Reading<'a> {
    filter: &'a Filter,
    trace: &'a Trace,
    clock: Clock,
    open: BTreeMap<LocationRef, Vec<Open>>,
    /// True until the first event of the wanted time.
    is_held_back: bool,
    printer: Printer<'a>,
}

impl Reading<'_> {
    /// Returns `false` when no more events are wanted.
    fn event(&mut self, location: LocationRef, event: &Event, output: &mut Output) -> Result<bool> {
        let ns = self.clock.ns(event.time);
        let begin_ns = self.clock.begin_ns;
        if !self.filter.wants_time(begin_ns, ns, None) {
            return Ok(false);
        }
        let is_early = !self.filter.wants_time(begin_ns, ns, Some(ns));
        if self.is_held_back && !is_early && !self.release(output)? {
            return Ok(false);
        }
        let own = match &event.kind {
            EventKind::Enter(region) => self.own(*region),
            _ => None,
        };
        let open = self.open.entry(location).or_default();
        let kind = own.or(open.last().and_then(|open| open.kind));
        let is_wanted =
            self.filter.wants_kind(record::name(&event.kind)) || kind.is_some_and(|kind| self.filter.wants_kind(kind));
        let mut depth = open.len();
        let mut duration_ns = None;
        match &event.kind {
            EventKind::Enter(region) => {
                open.push(Open { region: *region, ns, kind, held_back: (is_early && is_wanted).then(|| event.clone()) })
            }
            // An archive of another writer may leave a region that it did not enter.
            EventKind::Leave(region) if open.last().is_some_and(|last| last.region == *region) => {
                duration_ns = open.pop().map(|entered| ns.saturating_sub(entered.ns));
                depth = open.len();
            }
            _ => {}
        }
        if is_early || !is_wanted {
            return Ok(true);
        }
        let shown = Shown { location, event, after_ns: ns.saturating_sub(begin_ns), depth, duration_ns };
        self.printer.line(&shown, output)
    }

    /// The kind that a region itself shows, whatever is inside it.
    fn own(&self, region: RegionRef) -> Option<&'static str> {
        if let Some(role) = self.trace.role(region) {
            return Some(role.kind().name());
        }
        let class = self.trace.region(region)?.class;
        matches!(class, RegionClass::User | RegionClass::Mark).then_some(range::KIND)
    }

    /// Prints the regions that were entered before the wanted time and have not been left.
    fn release(&mut self, output: &mut Output) -> Result<bool> {
        self.is_held_back = false;
        let mut held = Vec::new();
        for (location, open) in &mut self.open {
            for (depth, open) in open.iter_mut().enumerate() {
                if let Some(event) = open.held_back.take() {
                    held.push((open.ns, *location, depth, event));
                }
            }
        }
        held.sort_by_key(|(ns, location, depth, _)| (*ns, *location, *depth));
        for (ns, location, depth, event) in held {
            let shown = Shown {
                location,
                event: &event,
                after_ns: ns.saturating_sub(self.clock.begin_ns),
                depth,
                duration_ns: None,
            };
            if !self.printer.line(&shown, output)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
