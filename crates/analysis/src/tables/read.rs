//! Reads the events of one location after the other, several locations at a time.

use std::ops::ControlFlow;

use nccl_events::Kind;
use nccl_events::Progress;
use nccl_events::archive::Timing;
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::gpu::is_of_nccl;
use otf2::{LocationRef, RegionRef, StringRef};
use rayon::prelude::*;

use super::members::{Members, small};
use super::rows::{
    Call, Calls, Kernel, Kernels, Launch, Launches, NO_SEQUENCE, NONE, Operation, Operations, Step, Steps, Transfer,
    Transfers,
};
use crate::archive::{Shows, Trace};
use crate::clock::Clock;
use crate::instances::{self, Instance, Instances};

/// The tables of an archive.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Operations of ranks, by location.
    pub operations: Operations,
    /// Calls of threads.
    pub calls: Calls,
    /// Launches of kernels.
    pub launches: Launches,
    /// Network transfers.
    pub transfers: Transfers,
    /// Steps of network transfers.
    pub steps: Steps,
    /// Kernels.
    pub kernels: Kernels,
    /// The ranks of communicators.
    pub members: Members,
    /// How times of the archive become those of the tables.
    pub clock: Clock,
}

impl Tables {
    /// Reads an archive.
    ///
    /// # Errors
    ///
    /// When it is damaged.
    pub fn read(trace: &Trace, progress: &dyn Progress) -> otf2::Result<Self> {
        Self::read_kinds(trace, true, progress)
    }

    /// Reads an archive but for what threads did: the tables of calls and launches stay empty.
    ///
    /// # Errors
    ///
    /// When it is damaged.
    pub fn without_calls(trace: &Trace, progress: &dyn Progress) -> otf2::Result<Self> {
        Self::read_kinds(trace, false, progress)
    }

    fn read_kinds(trace: &Trace, with_calls: bool, progress: &dyn Progress) -> otf2::Result<Self> {
        let members = Members::of(trace);
        let clock = Clock::of(trace);
        let reading = Reading { trace, clock, members: &members, progress };
        let of_kinds = |kinds: &[LocationKind]| {
            let locations = trace.definitions.locations.keys().copied();
            let is_one = |it: &LocationRef| trace.location_kind(*it).is_some_and(|kind| kinds.contains(&kind));
            locations.filter(|it| is_one(it) && trace.has_events(*it)).collect::<Vec<_>>()
        };
        let ranks = of_kinds(&[LocationKind::Communicator]);
        let callers: &[LocationKind] = &[LocationKind::ApiThread, LocationKind::CallbackThread];
        let threads = of_kinds(if with_calls { callers } else { &[] });
        let connections = of_kinds(&[LocationKind::Connection]);
        let slots = of_kinds(&[LocationKind::Slot]);
        let streams = of_kinds(&[LocationKind::Stream]);
        let all = [&ranks, &threads, &connections, &slots, &streams].map(|it| it.len() as u64);
        progress.begin("locations", all.iter().sum());
        let operations = Operations::concat(reading.each(&ranks, Reading::operations)?);
        let of_threads = reading.each(&threads, Reading::thread)?;
        let (calls, launches): (Vec<_>, Vec<_>) = of_threads.into_iter().unzip();
        let ids = Ids::of(&operations.event);
        let transfers = Transfers::concat(reading.each(&connections, |it, at| it.transfers(at, &ids))?);
        drop(ids);
        let ids = Ids::of(&transfers.event);
        let steps = Steps::concat(reading.each(&slots, |it, at| it.steps(at, &ids))?);
        drop(ids);
        let kernels = Kernels::concat(reading.each(&streams, Reading::kernels)?);
        progress.end();
        Ok(Self {
            operations,
            calls: Calls::concat(calls),
            launches: Launches::concat(launches),
            transfers,
            steps,
            kernels,
            clock,
            members,
        })
    }
}

/// What an archive is read with.
struct Reading<'a> {
    trace: &'a Trace,
    clock: Clock,
    members: &'a Members,
    progress: &'a dyn Progress,
}

/// Rows by the ids of their events.
struct Ids(Vec<(u64, u32)>);

impl Ids {
    fn of(events: &[u64]) -> Self {
        let mut ids: Vec<(u64, u32)> = events.iter().copied().zip(0..).collect();
        ids.par_sort_unstable();
        Self(ids)
    }

    fn row(&self, event: Option<u64>) -> u32 {
        let at = event.and_then(|event| self.0.binary_search_by_key(&event, |(id, _)| *id).ok());
        at.map_or(NONE, |at| self.0[at].1)
    }
}

impl<'a> Reading<'a> {
    /// Does the same for locations, and gives what is made of each in their order.
    fn each<T: Send>(
        &self,
        locations: &[LocationRef],
        read: impl Fn(&Self, LocationRef) -> otf2::Result<T> + Sync,
    ) -> otf2::Result<Vec<T>> {
        let locations = locations.par_iter();
        locations
            .map(|location| {
                let made = read(self, *location);
                self.progress.step();
                made
            })
            .collect()
    }

    /// Every region instance of a location.
    fn instances(&self, location: LocationRef, mut each: impl FnMut(&Instance<'a>)) -> otf2::Result<()> {
        let mut instances = Instances::of(self.trace);
        self.trace.archive.for_each_event(&[location], |_, event| {
            if let instances::Step::Left(instance) = instances.step(&event) {
                each(&instance);
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    fn member(&self, location: LocationRef) -> u32 {
        let rank = self.trace.rank_of(location);
        let member = rank.and_then(|(comm, rank)| {
            let communicator = self.members.communicators.binary_search(&comm).ok()?;
            self.members.find(small(communicator), rank)
        });
        member.unwrap_or(NONE)
    }

    fn operations(&self, location: LocationRef) -> otf2::Result<Operations> {
        let mut rows = Operations::default();
        let member = self.member(location);
        if member == NONE {
            return Ok(rows);
        }
        self.instances(location, |it| {
            if !matches!(it.shows, Some(Shows::Operation(_))) {
                return;
            }
            let fields = &it.fields;
            rows.push(Operation {
                member,
                function: it.region,
                timing: fields.timing.and_then(timing),
                is_unfinished: fields.is_unfinished,
                has_bandwidth: fields.algorithm_bandwidth.is_some(),
                partner: fields.peer.or(fields.root).unwrap_or(NONE),
                datatype: fields.datatype.unwrap_or(StringRef::UNDEFINED),
                count: fields.count.unwrap_or(0),
                bytes: fields.bytes.unwrap_or(0),
                start_ns: self.clock.ns(it.start),
                stop_ns: self.clock.ns(it.end),
                event: fields.event.unwrap_or(0),
                parent: fields.parent.unwrap_or(0),
                sequence: fields.sequence.unwrap_or(NO_SEQUENCE),
                replay: fields.replay.and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            });
        })?;
        Ok(rows)
    }

    fn thread(&self, location: LocationRef) -> otf2::Result<(Calls, Launches)> {
        let (mut calls, mut launches) = (Calls::default(), Launches::default());
        self.instances(location, |it| {
            let (start_ns, stop_ns) = (self.clock.ns(it.start), self.clock.ns(it.end));
            let (event, parent) = (it.fields.event.unwrap_or(0), it.fields.parent.unwrap_or(0));
            match self.trace.region(it.region).map(|region| region.class) {
                Some(RegionClass::Launch) => launches.push(Launch { location, start_ns, stop_ns, event, parent }),
                Some(RegionClass::Api) => {
                    let bytes = it.fields.bytes.unwrap_or(0);
                    calls.push(Call { location, function: it.region, start_ns, stop_ns, bytes, event, parent });
                }
                _ => {}
            }
        })?;
        Ok((calls, launches))
    }

    fn transfers(&self, location: LocationRef, ids: &Ids) -> otf2::Result<Transfers> {
        let mut rows = Transfers::default();
        let member = self.member(location);
        self.instances(location, |it| {
            if it.shows != Some(Shows::Work(Kind::ProxyOp)) {
                return;
            }
            let fields = &it.fields;
            rows.push(Transfer {
                member,
                operation: ids.row(fields.parent),
                peer: fields.peer.unwrap_or(NONE),
                channel: fields.channel.unwrap_or(NONE),
                is_send: self.trace.region(it.region).is_some_and(|region| region.name == "netSend"),
                start_ns: self.clock.ns(it.start),
                stop_ns: self.clock.ns(it.end),
                queued_ns: fields.queued_ns,
                event: fields.event.unwrap_or(0),
            });
        })?;
        Ok(rows)
    }

    fn steps(&self, location: LocationRef, ids: &Ids) -> otf2::Result<Steps> {
        let mut rows = Steps::default();
        // The phases of a step follow each other, and have its id.
        let mut open: Option<(Option<u64>, Step)> = None;
        let mut phases = Phases::of(self.trace);
        self.instances(location, |it| {
            let Some(phase) = phases.number(it) else {
                return;
            };
            let event = it.fields.event;
            if open.as_ref().is_none_or(|(id, _)| *id != event) {
                let start_ns = self.clock.ns(it.start);
                let transfer = ids.row(it.fields.parent);
                let step = Step { transfer, start_ns, first_ns: 0, second_ns: 0, third_ns: 0, bytes: 0 };
                if let Some((_, step)) = open.replace((event, step)) {
                    rows.push(step);
                }
            }
            if let Some((_, step)) = &mut open {
                let length_ns = self.clock.ns(it.end).saturating_sub(self.clock.ns(it.start));
                let slot = match phase {
                    0 => &mut step.first_ns,
                    1 => &mut step.second_ns,
                    _ => &mut step.third_ns,
                };
                *slot += length_ns;
                step.bytes = it.fields.bytes.unwrap_or(step.bytes);
            }
        })?;
        if let Some((_, step)) = open {
            rows.push(step);
        }
        Ok(rows)
    }

    fn kernels(&self, location: LocationRef) -> otf2::Result<Kernels> {
        let mut rows = Kernels::default();
        let mut last: Option<(RegionRef, bool)> = None;
        self.instances(location, |it| {
            if self.trace.is_copy(it.region) {
                return;
            }
            let by_name = match last {
                Some((region, is_nccl)) if region == it.region => is_nccl,
                _ => self.trace.canonical_name(it.region).is_some_and(is_of_nccl),
            };
            last = Some((it.region, by_name));
            rows.push(Kernel {
                location,
                region: it.region,
                is_nccl: by_name || it.fields.parent.is_some() || it.fields.external_correlation.is_some(),
                start_ns: self.clock.ns(it.start),
                stop_ns: self.clock.ns(it.end),
                parent: it.fields.parent.unwrap_or(0),
            });
        })?;
        Ok(rows)
    }
}

fn timing(name: &str) -> Option<Timing> {
    Timing::ALL.into_iter().find(|timing| timing.name() == name)
}

/// Which phase of a step a region is.
struct Phases<'a> {
    trace: &'a Trace,
    known: Vec<(RegionRef, Option<usize>)>,
}

impl<'a> Phases<'a> {
    const fn of(trace: &'a Trace) -> Self {
        Self { trace, known: Vec::new() }
    }

    fn number(&mut self, instance: &Instance<'_>) -> Option<usize> {
        const NAMES: [[&str; 3]; 2] =
            [["SendGPUWait", "SendPeerWait", "SendWait"], ["RecvWait", "RecvFlushWait", "RecvGPUWait"]];
        let region = instance.region;
        if let Some((_, number)) = self.known.iter().find(|(known, _)| *known == region) {
            return *number;
        }
        let number = self.trace.region(region).filter(|it| it.kind == Some(Kind::ProxyStep)).and_then(|it| {
            let mut names = NAMES.iter().flatten();
            names.position(|name| *name == it.name).map(|at| at % 3)
        });
        self.known.push((region, number));
        number
    }
}
