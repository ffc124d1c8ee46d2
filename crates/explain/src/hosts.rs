//! When operations were called and launched on their hosts. Only threads of the processes concerned are read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use analysis::tables::Tables;
use analysis::{Clock, Ids, Trace, try_in_parallel};
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::ids::index;
use nccl_events::sort::Gather;
use otf2::{Event, EventKind, LocationRef, RegionRef};

/// When an operation was called and launched; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) called_ns: Option<u64>,
    pub(crate) launched_ns: Option<u64>,
}

/// By row of the operation.
pub(crate) type Hosts = BTreeMap<u32, Host>;

/// The call, launch or enqueueing of some operations, by their event.
#[derive(Default)]
struct Found {
    /// When it began, and the group it is in.
    calls: BTreeMap<u64, (u64, u64)>,
    enqueued: BTreeMap<u64, Enqueued>,
}

#[derive(Clone, Copy)]
struct Enqueued {
    at_ns: u64,
    /// When the outermost call of NCCL around it began.
    around_ns: Option<u64>,
    /// When the last launch on its thread before it began, and the group of that.
    launch: Option<(u64, u64)>,
    /// Whether CUDA's own thread reported it, at a time that says nothing about the launch.
    is_by_callback: bool,
}

pub(crate) fn read(trace: &Trace, tables: &Tables, rows: &BTreeSet<u32>) -> otf2::Result<Hosts> {
    // A replay has the call and the launch of its capture.
    let rows = rows.iter().map(|row| (*row, tables.operations.row(index(*row)))).filter(|(_, it)| it.replay == 0);
    let rows: Vec<_> = rows.map(|(row, it)| (row, it.member, it.event, it.parent)).collect();
    let calls: BTreeSet<u64> = rows.iter().map(|(.., call)| *call).filter(|event| *event != 0).collect();
    let events: BTreeSet<u64> = rows.iter().map(|(_, _, event, _)| *event).filter(|event| *event != 0).collect();
    let members: BTreeSet<u32> = rows.iter().map(|(_, member, ..)| *member).collect();
    let process = |member: u32| trace.process(trace.group(tables.members.row(member).location));
    let processes: BTreeSet<_> = members.into_iter().map(process).gather();
    let mut threads = trace.locations_of(&[LocationKind::ApiThread, LocationKind::CallbackThread]);
    threads.retain(|thread| processes.contains(&trace.process(trace.group(*thread))));
    let class = |region| trace.region(region).map(|it| it.class);
    let is_read = |class: &RegionClass| matches!(class, RegionClass::Api | RegionClass::Launch | RegionClass::Enqueue);
    let classes = trace.definitions.regions.keys().filter_map(|it| Some((*it, class(*it).filter(is_read)?)));
    let classes: BTreeMap<RegionRef, RegionClass> = classes.gather();
    let read = try_in_parallel(threads, |thread| of_thread(trace, &classes, thread, &calls, &events));
    let mut found = Found::default();
    for of_thread in read? {
        found.calls.extend(of_thread.calls);
        found.enqueued.extend(of_thread.enqueued);
    }
    Ok(rows.into_iter().map(|(row, _, event, call)| (row, found.host(event, call))).gather())
}

fn of_thread(
    trace: &Trace,
    classes: &BTreeMap<RegionRef, RegionClass>,
    thread: LocationRef,
    calls: &BTreeSet<u64>,
    events: &BTreeSet<u64>,
) -> otf2::Result<Found> {
    let (mut found, mut launch) = (Found::default(), None);
    let is_by_callback = trace.location_kind(thread) == Some(LocationKind::CallbackThread);
    let clock = Clock::of(trace);
    // When each call began that is open; `None` for other regions.
    let mut open: Vec<Option<u64>> = Vec::new();
    trace.archive.for_each_event(&[thread], |_, event| {
        let EventKind::Enter(region) = event.kind else {
            if matches!(event.kind, EventKind::Leave(_)) {
                open.pop();
            }
            return ControlFlow::Continue(());
        };
        let (class, start_ns) = (classes.get(&region), clock.ns(event.time));
        open.push(Some(start_ns).filter(|_| class == Some(&RegionClass::Api)));
        let ids = |event: &Event| trace.read_fields::<Ids<'_>>(&event.attributes);
        match class {
            Some(RegionClass::Launch) => launch = Some((start_ns, ids(event).parent.unwrap_or(0))),
            Some(RegionClass::Api) => {
                let Ids { event: id, parent } = ids(event);
                if let Some(id) = id.filter(|id| calls.contains(id)) {
                    found.calls.insert(id, (start_ns, parent.unwrap_or(0)));
                }
            }
            Some(RegionClass::Enqueue) => {
                if let Some(id) = ids(event).event.filter(|id| events.contains(id)) {
                    let around_ns = open.iter().flatten().next().copied();
                    found.enqueued.insert(id, Enqueued { at_ns: start_ns, around_ns, launch, is_by_callback });
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

impl Found {
    fn host(&self, event: u64, parent: u64) -> Host {
        let call = self.calls.get(&parent);
        let enqueued = self.enqueued.get(&event).filter(|it| !it.is_by_callback);
        let called_ns = call.map(|(start_ns, _)| *start_ns);
        // Up to 2.27 NCCL reports no calls: the range of one is around, if NVTX was recorded.
        let called_ns = called_ns.or(enqueued.map(|it| it.around_ns.unwrap_or(it.at_ns)));
        // NCCL enqueues right after the launch.
        let launched_ns = enqueued.map(|it| match (it.launch, call) {
            (Some((start_ns, group)), Some((_, of_call))) if group == *of_call => start_ns,
            _ => it.at_ns,
        });
        Host { called_ns, launched_ns }
    }
}
