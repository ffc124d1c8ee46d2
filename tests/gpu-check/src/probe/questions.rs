//! Questions about records.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cupti_sys::constants::{KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION};
use cupti_sys::record::{external, kernel};
use serde_json::{Value, json};

use super::Answer;
use super::buffers;
use super::driver::{Driver, Form};
use super::gpu::{EMPTY, Gpu, cupti_stream_id};
use super::tool::{Cupti, Family, Record, Tool, of_kind};
use crate::options::ProbeRequest;
use crate::outcome::{Facts, Outcome};

pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const KINDS: [u32; 2] = [KIND_EXTERNAL_CORRELATION, KIND_CONCURRENT_KERNEL];

/// CUPTI with its first tool: of the family that the plugin takes, unless one is wanted.
pub(super) fn first_tool(cupti: &Cupti, family: Option<Family>) -> Result<Tool, Outcome> {
    let own = Family::Own { shared: true };
    let refused = |(code, holder): (cupti_sys::Code, String)| {
        Outcome::failed(format!(
            "subscribing failed with {code}, held by \"{holder}\""
        ))
    };
    if let Some(family) = family {
        return cupti.subscribe(family).map_err(refused);
    }
    let is_whole = cupti.version >= cupti_sys::constants::VERSION_SUBSCRIBER_FUNCTIONS;
    if is_whole && let Ok(tool) = cupti.subscribe(own) {
        return Ok(tool);
    }
    cupti.subscribe(Family::Global).map_err(refused)
}

fn put(facts: &mut Facts, name: &str, value: impl Into<Value>) {
    facts.insert(name.to_owned(), value.into());
}

/// The GPU and its driver.
pub(super) fn device(request: &ProbeRequest) -> Answer {
    let driver = Driver::load(request.driver.as_deref())?;
    let mut facts = Facts::new();
    put(&mut facts, "cuda_of_driver", driver.version()?);
    put(&mut facts, "devices", driver.devices()?);
    put(&mut facts, "name", driver.name()?);
    let device = driver.start()?;
    put(&mut facts, "free_bytes", device.free_bytes()?);
    Ok(Outcome::of(&[], facts))
}

/// External ids with single functions, in the family that `GPU_CHECK_FAMILY` says: a process is of one.
pub(super) fn ids(request: &ProbeRequest) -> Answer {
    const LAUNCHES: u32 = 100;
    let gpu = Gpu::start(request)?;
    let cupti = Cupti::load(request)?;
    let is_own = std::env::var("GPU_CHECK_FAMILY").is_ok_and(|family| family == "own");
    let is_whole = cupti.version >= cupti_sys::constants::VERSION_SUBSCRIBER_FUNCTIONS;
    if is_own && !is_whole {
        return Ok(Outcome::not_here(
            "this CUPTI has no family of a subscriber's own (CUDA 13.3)",
        ));
    }
    let family = if is_own {
        Family::Own { shared: true }
    } else {
        Family::Global
    };
    let tool = first_tool(&cupti, Some(family))?;
    let single = tool.turn_on(&KINDS, true)?;
    for id in 0..LAUNCHES {
        tool.push(u64::from(id) + 1)?;
        gpu.launch(1)?;
        if tool.pop()? != u64::from(id) + 1 {
            return Ok(Outcome::failed("another id was on CUPTI's stack"));
        }
    }
    gpu.launch(LAUNCHES)?;
    gpu.synchronize()?;
    let all = usize::try_from(LAUNCHES).unwrap_or(0) * 2;
    let records = tool.records(PATIENCE, |records| {
        of_kind(records, KIND_CONCURRENT_KERNEL).len() >= all
    })?;
    let kernels = of_kind(&records, KIND_CONCURRENT_KERNEL);
    let by_correlation: BTreeSet<Option<u32>> = kernels
        .iter()
        .map(|record| kernel::CORRELATION.of(&record.0))
        .collect();
    let externals = of_kind(&records, KIND_EXTERNAL_CORRELATION);
    let joined = externals.iter().filter(|record| {
        let correlation = external::CORRELATION.of(&record.0);
        by_correlation.contains(&correlation)
    });
    let mut facts = cupti.facts();
    put(&mut facts, "family", tool.family_name());
    put(&mut facts, "single_functions", single);
    put(&mut facts, "launches_with_id", LAUNCHES);
    put(&mut facts, "external_records", externals.len());
    put(&mut facts, "joined", joined.count());
    put(&mut facts, "kernel_records", kernels.len());
    put(
        &mut facts,
        "driver_records",
        of_kind(&records, KIND_DRIVER).len(),
    );
    let joined = facts["joined"].as_u64();
    let mut wrong = Vec::new();
    if joined != Some(u64::from(LAUNCHES)) || kernels.len() != all {
        wrong.push(format!(
            "{LAUNCHES} launches had an id, {joined:?} kernels are joined to one; {} kernels of {all}",
            kernels.len()
        ));
    }
    Ok(Outcome::of(&wrong, facts))
}

/// Body<Symbol> of a kernel's record against how it was launched.
pub(super) fn layout(request: &ProbeRequest) -> Answer {
    const FORM: Form = Form {
        grid: [3, 2, 5],
        block: [64, 4, 2],
        shared_bytes: 1024,
    };
    let gpu = Gpu::start(request)?;
    let (device, stream) = gpu.device()?;
    let cupti = Cupti::load(request)?;
    let tool = first_tool(&cupti, None)?;
    tool.turn_on(&KINDS, true)?;
    device.launch(stream, FORM)?;
    device.synchronize(stream)?;
    let records = tool.records(PATIENCE, |records| {
        !of_kind(records, KIND_CONCURRENT_KERNEL).is_empty()
    })?;
    let Some(record) = of_kind(&records, KIND_CONCURRENT_KERNEL)
        .first()
        .copied()
        .cloned()
    else {
        return Ok(Outcome::failed("no kernel record came"));
    };
    let bytes = &record.0;
    let [x, y, z] = FORM.grid;
    let [threads_x, threads_y, threads_z] = FORM.block;
    let mut facts = cupti.facts();
    let mut wrong = Vec::new();
    for (name, field, want) in [
        ("grid_x", kernel::GRID_X, x),
        ("grid_y", kernel::GRID_Y, y),
        ("grid_z", kernel::GRID_Z, z),
        ("block_x", kernel::BLOCK_X, threads_x),
        ("block_y", kernel::BLOCK_Y, threads_y),
        ("block_z", kernel::BLOCK_Z, threads_z),
        (
            "shared_bytes",
            kernel::DYNAMIC_SHARED_BYTES,
            FORM.shared_bytes,
        ),
    ] {
        let got = field.of(bytes);
        put(&mut facts, name, json!(got));
        if got != Some(want) {
            wrong.push(format!("{name} is {got:?}, not {want}"));
        }
    }
    let name = record.kernel_name();
    if name != EMPTY.to_string_lossy() {
        wrong.push(format!("the name is {name:?}"));
    }
    let (start, end) = (kernel::START.of(bytes), kernel::END.of(bytes));
    if start.is_none_or(|start| start == 0) || end < start {
        wrong.push(format!("it ran from {start:?} to {end:?}"));
    }
    put(&mut facts, "name", name);
    put(&mut facts, "start_ns", json!(start));
    put(&mut facts, "end_ns", json!(end));
    put(&mut facts, "device", json!(kernel::DEVICE.of(bytes)));
    put(&mut facts, "context", json!(kernel::CONTEXT.of(bytes)));
    put(&mut facts, "stream", json!(kernel::STREAM.of(bytes)));
    put(
        &mut facts,
        "registers",
        json!(kernel::REGISTERS_PER_THREAD.of(bytes)),
    );
    put(&mut facts, "record_bytes", bytes.len());
    Ok(Outcome::of(&wrong, facts))
}

/// Three numbers of a stream.
pub(super) fn streams(request: &ProbeRequest) -> Answer {
    let gpu = Gpu::start(request)?;
    let (device, first) = gpu.device()?;
    let cupti = Cupti::load(request)?;
    let tool = first_tool(&cupti, None)?;
    tool.turn_on(&KINDS, true)?;
    let second = device.stream()?;
    let mut facts = cupti.facts();
    let mut wrong = Vec::new();
    for (name, stream) in [("first", first), ("second", second)] {
        device.launch(stream, Form::ONE)?;
        device.synchronize(stream)?;
        let records = tool.records(PATIENCE, |records| {
            !of_kind(records, KIND_CONCURRENT_KERNEL).is_empty()
        })?;
        let record = of_kind(&records, KIND_CONCURRENT_KERNEL)
            .first()
            .copied()
            .cloned();
        let of_record = record.and_then(|record| kernel::STREAM.of(&record.0));
        let path = facts["cupti"].as_str().unwrap_or_default().to_owned();
        let of_cupti = cupti_stream_id(path.as_ref(), stream).ok();
        let of_driver = device.stream_id(stream).ok();
        if of_record.is_none() || of_record != of_cupti {
            wrong.push(format!(
                "{name} stream: {of_record:?} in the record, {of_cupti:?} by cuptiGetStreamIdEx"
            ));
        }
        put(
            &mut facts,
            name,
            json!({ "record": of_record, "cuptiGetStreamIdEx": of_cupti, "cuStreamGetId": of_driver }),
        );
    }
    Ok(Outcome::of(&wrong, facts))
}

/// Replays.
pub(super) fn graph(request: &ProbeRequest) -> Answer {
    const NODES: u32 = 2;
    const REPLAYS: u32 = 1000;
    let gpu = Gpu::start(request)?;
    let (device, stream) = gpu.device()?;
    let cupti = Cupti::load(request)?;
    let tool = first_tool(&cupti, None)?;
    tool.turn_on(&KINDS, true)?;
    device.replay(stream, NODES, REPLAYS)?;
    let all = usize::try_from(NODES * REPLAYS).unwrap_or(0);
    let records = tool.records(PATIENCE, |records| {
        of_kind(records, KIND_CONCURRENT_KERNEL).len() >= all
    })?;
    let kernels = of_kind(&records, KIND_CONCURRENT_KERNEL);
    let mut nodes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut graphs: BTreeSet<u32> = BTreeSet::new();
    let mut sources: BTreeSet<u64> = BTreeSet::new();
    let mut correlations: BTreeMap<u32, u64> = BTreeMap::new();
    for Record(bytes) in kernels.iter().copied() {
        *nodes
            .entry(kernel::GRAPH_NODE.of(bytes).unwrap_or(0))
            .or_default() += 1;
        *correlations
            .entry(kernel::CORRELATION.of(bytes).unwrap_or(0))
            .or_default() += 1;
        graphs.extend(kernel::GRAPH.of(bytes));
        sources.extend(kernel::SOURCE_GRAPH_NODE.of(bytes));
    }
    let mut facts = cupti.facts();
    put(&mut facts, "kernel_records", kernels.len());
    put(&mut facts, "nodes", json!(nodes));
    put(&mut facts, "graphs", json!(graphs));
    put(&mut facts, "source_nodes", json!(sources));
    put(&mut facts, "correlation_ids", correlations.len());
    let mut wrong = Vec::new();
    if kernels.len() != all {
        wrong.push(format!("{} kernel records of {all}", kernels.len()));
    }
    let steady = nodes.len() == 2 && nodes.values().all(|count| *count == u64::from(REPLAYS));
    if !steady || nodes.contains_key(&0) {
        wrong.push(format!("node ids do not stay: {} of them", nodes.len()));
    }
    Ok(Outcome::of(&wrong, facts))
}

/// A child of a process that traces.
pub(super) fn fork(request: &ProbeRequest) -> Answer {
    let gpu = Gpu::start(request)?;
    let cupti = Cupti::load(request)?;
    let tool = first_tool(&cupti, None)?;
    tool.turn_on(&KINDS, true)?;
    gpu.launch(10)?;
    // SAFETY: the child makes one system call, and no other of this process's code.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child at once; no handler of exit's is run.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made and writes one int.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    gpu.launch(10)?;
    gpu.synchronize()?;
    let records = tool.records(PATIENCE, |records| {
        of_kind(records, KIND_CONCURRENT_KERNEL).len() >= 20
    })?;
    let kernels = of_kind(&records, KIND_CONCURRENT_KERNEL).len();
    let ended_well = waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7;
    let mut facts = cupti.facts();
    put(&mut facts, "kernel_records", kernels);
    put(&mut facts, "child_ended_well", ended_well);
    let mut wrong = Vec::new();
    if !ended_well {
        wrong.push("the child did not end as it was to".to_owned());
    }
    if kernels != 20 {
        wrong.push(format!("{kernels} kernel records of 20"));
    }
    Ok(Outcome::of(&wrong, facts))
}

/// Little room: one buffer of 64 KiB at a time.
pub(super) fn small_buffers(request: &ProbeRequest) -> Answer {
    const LAUNCHES: u32 = 5000;
    const BYTES: usize = 64 << 10;
    let gpu = Gpu::start(request)?;
    let cupti = Cupti::load(request)?;
    // Before CUDA 12.9 none may be refused.
    let may_refuse = cupti.version >= cupti_sys::constants::VERSION_BUFFER_MAY_BE_REFUSED;
    buffers::set_size(BYTES, if may_refuse { 2 } else { usize::MAX });
    let tool = first_tool(&cupti, None)?;
    tool.turn_on(&KINDS, true)?;
    gpu.launch(LAUNCHES)?;
    gpu.synchronize()?;
    let all = usize::try_from(LAUNCHES).unwrap_or(0);
    let records = tool.records(Duration::from_secs(2), |records| {
        of_kind(records, KIND_CONCURRENT_KERNEL).len() >= all
    })?;
    let kernels = of_kind(&records, KIND_CONCURRENT_KERNEL).len();
    let dropped = tool.dropped();
    let mut facts = cupti.facts();
    put(&mut facts, "launches", LAUNCHES);
    put(&mut facts, "kernel_records", kernels);
    put(&mut facts, "dropped", dropped);
    put(&mut facts, "buffers_refused", buffers::refused());
    put(
        &mut facts,
        "lost_uncounted",
        all.saturating_sub(kernels + dropped),
    );
    let mut wrong = Vec::new();
    if kernels > all {
        wrong.push(format!("{kernels} kernel records of {all} launches"));
    }
    if kernels < all && dropped == 0 {
        wrong.push(format!(
            "{} kernels have no record, and CUPTI counts none as dropped",
            all - kernels
        ));
    }
    Ok(Outcome::of(&wrong, facts))
}

/// No buffer at all; says first which release it is, for it may not come to an answer.
pub(super) fn refuse(request: &ProbeRequest) -> Answer {
    let gpu = Gpu::start(request)?;
    let cupti = Cupti::load(request)?;
    println!("cupti {}", cupti.version);
    buffers::refuse(true);
    let tool = first_tool(&cupti, None)?;
    tool.turn_on(&KINDS, true)?;
    gpu.launch(10)?;
    gpu.synchronize()?;
    let refused = buffers::refused();
    let missed = tool.records(Duration::from_millis(200), |_| false)?;
    buffers::refuse(false);
    gpu.launch(10)?;
    gpu.synchronize()?;
    let records = tool.records(Duration::from_secs(1), |records| {
        of_kind(records, KIND_CONCURRENT_KERNEL).len() >= 10
    })?;
    let mut facts = cupti.facts();
    put(&mut facts, "buffers_refused", refused);
    put(&mut facts, "records_while_refused", missed.len());
    put(
        &mut facts,
        "kernel_records_later",
        of_kind(&records, KIND_CONCURRENT_KERNEL).len(),
    );
    put(&mut facts, "dropped", tool.dropped());
    Ok(Outcome::of(&[], facts))
}
