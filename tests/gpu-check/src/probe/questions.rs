//! The questions.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cupti_sys::constants::{
    KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION, VERSION_SUBSCRIBER_FUNCTIONS,
};
use cupti_sys::record::external;
use cupti_sys::record::kernel;
use serde_json::{Value, json};

use super::buffers::{REFUSE, REFUSED};
use super::driver::Driver;
use super::gpu::Gpu;
use super::tool::{Cupti, Family, Record, Tool, records_of_kind};
use crate::options::Options;
use crate::outcome::{Answer, Outcome, Problems, with};

const PATIENCE: Duration = Duration::from_secs(5);
const KINDS: [u32; 2] = [KIND_EXTERNAL_CORRELATION, KIND_CONCURRENT_KERNEL];

/// CUPTI with its first tool, of the family that the plugin takes.
fn first_tool(cupti: &Cupti) -> Result<Tool, Outcome> {
    let is_whole = cupti.version >= VERSION_SUBSCRIBER_FUNCTIONS;
    if is_whole && let Ok(tool) = cupti.subscribe(Family::Own(true)) {
        return Ok(tool);
    }
    subscribed(cupti, Family::Global)
}

fn subscribed(cupti: &Cupti, family: Family) -> Result<Tool, Outcome> {
    cupti
        .subscribe(family)
        .map_err(|(code, holder)| Outcome::failed(format!("subscribing failed with {code}, held by \"{holder}\"")))
}

/// A GPU, CUPTI, and its first tool, which records kernels and the ids of their launches.
fn recording(options: &Options) -> Result<(Gpu, Cupti, Tool), Outcome> {
    let gpu = Gpu::start(options)?;
    let cupti = Cupti::load(options)?;
    let tool = first_tool(&cupti)?;
    tool.turn_on(&KINDS)?;
    Ok((gpu, cupti, tool))
}

fn outcome(wrong: &Problems, facts: Value, cupti: &Cupti) -> Answer {
    Ok(Outcome::from_problems(wrong, with(facts, cupti.facts())))
}

pub(super) fn device(options: &Options) -> Answer {
    let driver = Driver::load(options.driver.as_deref())?;
    let (devices, name) = driver.devices()?;
    let (version, free_bytes) = (driver.version()?, driver.start()?.free_bytes()?);
    let facts = json!({
        "cuda_of_driver": version, "devices": devices, "name": name, "free_bytes": free_bytes,
    });
    Ok(Outcome::from_problems(&Problems::default(), facts))
}

/// External ids with single functions, in one of the families: a process is of one.
pub(super) fn ids(options: &Options, family: &str) -> Answer {
    const LAUNCHES: u32 = 100;
    let gpu = Gpu::start(options)?;
    let cupti = Cupti::load(options)?;
    let is_own = family == "own";
    if is_own && cupti.version < VERSION_SUBSCRIBER_FUNCTIONS {
        return Ok(Outcome::not_here("this CUPTI has no family of a subscriber's own (CUDA 13.3)"));
    }
    let family = if is_own { Family::Own(true) } else { Family::Global };
    let tool = subscribed(&cupti, family)?;
    let single = tool.turn_on(&KINDS)?;
    for id in 1..=u64::from(LAUNCHES) {
        tool.push(id)?;
        gpu.launch(1)?;
        if tool.pop()? != id {
            return Ok(Outcome::failed("another id was on CUPTI's stack"));
        }
    }
    gpu.launch(LAUNCHES)?;
    gpu.synchronize()?;
    let all = LAUNCHES as usize * 2;
    let records = tool.records(all, PATIENCE)?;
    let kernels = records_of_kind(&records, KIND_CONCURRENT_KERNEL);
    let correlations: BTreeSet<Option<u32>> = kernels.iter().map(|record| kernel::CORRELATION.read(record)).collect();
    let externals = records_of_kind(&records, KIND_EXTERNAL_CORRELATION);
    let is_joined = |record: &&Record| correlations.contains(&external::CORRELATION.read(record));
    let joined = externals.iter().filter(is_joined).count();
    let facts = json!({
        "single_functions": single,
        "external_records": externals.len(),
        "joined": joined,
        "kernel_records": kernels.len(),
        "driver_records": records_of_kind(&records, KIND_DRIVER).len(),
    });
    let mut wrong = Problems::default();
    wrong.unless(
        joined * 2 == all && kernels.len() == all,
        format!(
            "{LAUNCHES} launches had an id, {joined} kernels are joined to one; {} kernels of {all}",
            kernels.len()
        ),
    );
    outcome(&wrong, facts, &cupti)
}

pub(super) fn fork(options: &Options) -> Answer {
    let (gpu, cupti, tool) = recording(options)?;
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
    let kernels = records_of_kind(&tool.records(20, PATIENCE)?, KIND_CONCURRENT_KERNEL).len();
    let ended_well = waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7;
    let mut wrong = Problems::default();
    wrong.unless(ended_well, "the child did not end as it was to");
    wrong.unless(kernels == 20, format!("{kernels} kernel records of 20"));
    outcome(&wrong, json!({ "kernel_records": kernels, "child_ended_well": ended_well }), &cupti)
}

/// No buffer at all. Prints the release first: the process may crash before it answers.
pub(super) fn refuse(options: &Options) -> Answer {
    println!("cupti {}", {
        // CUPTI needs a loaded driver.
        let _gpu = Gpu::start(options)?;
        Cupti::load(options)?.version
    });
    REFUSE.store(true, Ordering::Relaxed);
    let (gpu, cupti, tool) = recording(options)?;
    gpu.launch(10)?;
    gpu.synchronize()?;
    let refused = REFUSED.load(Ordering::Relaxed);
    let missed = tool.records(usize::MAX, Duration::from_millis(200))?;
    REFUSE.store(false, Ordering::Relaxed);
    gpu.launch(10)?;
    gpu.synchronize()?;
    let later = tool.records(10, Duration::from_secs(1))?;
    let facts = json!({
        "buffers_refused": refused,
        "records_while_refused": missed.len(),
        "kernel_records_later": records_of_kind(&later, KIND_CONCURRENT_KERNEL).len(),
        "dropped": tool.dropped(),
    });
    outcome(&Problems::default(), facts, &cupti)
}

/// Pairs of families, for two tools.
pub(crate) const ORDERS: &str =
    "global,global global,alone global,shared alone,global alone,shared shared,global shared,alone shared,shared";

fn family(word: &str) -> Family {
    match word {
        "global" => Family::Global,
        word => Family::Own(word == "shared"),
    }
}

/// Subscribes both; then whether the first still has its records. Whatever comes out is a fact about CUPTI; the
/// plugin's own checks say how it copes.
pub(super) fn two_tools(options: &Options, order: &str) -> Answer {
    let (first, second) = order.split_once(',').unwrap_or((order, ""));
    let gpu = Gpu::start(options)?;
    let cupti = Cupti::load(options)?;
    let version = Driver::load(options.driver.as_deref())?.version().ok();
    let refused = |(code, holder): (cupti_sys::Code, String)| json!([code.to_string(), holder]);
    let mut facts = json!({ "cuda_of_driver": version });
    let tool = match cupti.subscribe(family(first)) {
        Ok(tool) => tool,
        Err(why) => {
            facts["first"] = refused(why);
            return outcome(&Problems::default(), facts, &cupti);
        }
    };
    // 13.0 to 13.2 have subscribers without all of their functions.
    let turned_on = tool.turn_on(&KINDS);
    facts["first"] = json!(turned_on.as_ref().map_or_else(|no| no.why.as_str(), |_| "subscribed"));
    facts["second"] = match cupti.subscribe(family(second)) {
        Ok(other) => json!({ "subscribed": true, "ends": other.unsubscribe().to_string() }),
        Err(why) => refused(why),
    };
    if turned_on.is_ok() {
        gpu.launch(10)?;
        gpu.synchronize()?;
        let records = tool.records(10, Duration::from_secs(2))?;
        let kernels = records_of_kind(&records, KIND_CONCURRENT_KERNEL).len();
        facts["kernel_records_of_first"] = json!(kernels);
    }
    outcome(&Problems::default(), facts, &cupti)
}
