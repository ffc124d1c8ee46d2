//! What listening costs: the same small all-reduce again and again, with nobody listening and with somebody.

use std::time::Duration;

use serde_json::{Value, json};

use super::job::{Job, Listener};
use crate::context::{Context, Shape};
use crate::outcome::{Answer, Outcome};

/// 64 bytes: nothing but latency.
const ELEMENTS: u32 = 16;
const MOST_ITERATIONS: u64 = 1_000_000;
/// Each is run so often, in turn with the others: other load on the machine then affects all of them.
const TURNS: u32 = 2;

/// Somebody who listens: a name, who it is, and a variable with its value, which the first has not.
type Variant = (&'static str, Listener, &'static str);

/// Callbacks: GPU work is left alone.
pub(crate) fn callback_cost(context: &Context<'_>) -> Answer {
    let variants = [
        ("none", Listener::Nobody, "NCCL_OTF2_EVENTS"),
        ("empty", Listener::EmptyPlugin, "NCCL_OTF2_EVENTS"),
        ("light", Listener::Recording, "NCCL_OTF2_EVENTS"),
        ("standard", Listener::Recording, "NCCL_OTF2_EVENTS"),
        ("full", Listener::Recording, "NCCL_OTF2_EVENTS"),
    ];
    compare(context, &variants)
}

/// GPU work: the events recorded are the same.
pub(crate) fn cupti_cost(context: &Context<'_>) -> Answer {
    let variants = ["off", "events", "cupti"].map(|backend| (backend, Listener::Recording, "NCCL_OTF2_GPU"));
    compare(context, &variants)
}

fn compare(context: &Context<'_>, variants: &[Variant]) -> Answer {
    let shape = context.shape()?;
    let (first, turns) = if context.is_fake { (64, 1) } else { (2048, TURNS) };
    let iterations = if context.is_fake {
        first
    } else {
        // As many as fit. Half of the time is for beginnings and ends: a communicator takes seconds.
        let each_ns = pace(context, shape, variants[0], first, "pace")?.each_ns;
        let runs = u32::try_from(variants.len()).unwrap_or(1) * turns;
        let fit = context.left().as_nanos() / u128::from(2 * runs) / u128::from(each_ns.max(1));
        u64::try_from(fit).unwrap_or(u64::MAX).clamp(64, MOST_ITERATIONS)
    };
    let mut facts = json!({ "shape": shape.words, "bytes": ELEMENTS * 4, "iterations": iterations });
    let mut seen: Vec<Vec<Pace>> = variants.iter().map(|_| Vec::new()).collect();
    for turn in 0..turns {
        for (variant, paces) in variants.iter().zip(&mut seen) {
            if context.left() < Duration::from_secs(4) {
                facts["cut_short"] = json!(true);
                break;
            }
            let name = format!("{}-{turn}", variant.0);
            paces.push(pace(context, shape, *variant, iterations, &name)?);
            // A million calls are hundreds of megabytes.
            let _ = std::fs::remove_dir_all(context.work.join(&name));
        }
    }
    for ((name, ..), paces) in variants.iter().zip(&seen) {
        let call_ns = paces.iter().map(|pace| pace.call_ns).min();
        let each_ns = paces.iter().map(|pace| pace.each_ns).min();
        let turns: Vec<&Value> = paces.iter().map(|pace| &pace.whole).collect();
        facts[format!("{name}_call_ns")] = json!(call_ns);
        facts[*name] = json!({ "call_ns": call_ns, "each_ns": each_ns, "turns": turns });
    }
    Ok(Outcome::of(&[], facts))
}

struct Pace {
    call_ns: u64,
    each_ns: u64,
    whole: Value,
}

fn pace(
    context: &Context<'_>,
    shape: &Shape,
    (value, listener, variable): Variant,
    iterations: u64,
    name: &str,
) -> Result<Pace, Outcome> {
    let failed = |why: String| Outcome::failed(format!("{name}: {why}"));
    let log = context.work.join(format!("{name}.log"));
    let mut job = Job::new(shape, "repeat", listener)
        .argument("--count", ELEMENTS)
        .argument("--iterations", iterations)
        .argument("--log", log.display());
    if listener == Listener::Recording {
        job = job.variable(variable, value);
    }
    let ran = job.run(context, name)?;
    if !ran.succeeded() {
        return Err(failed(ran.how_it_ended()));
    }
    let text = std::fs::read_to_string(context.work.join(format!("{name}.log.0.jsonl")))
        .map_err(|error| failed(format!("no log of nccl-host: {error}")))?;
    slowest(&text).ok_or_else(|| failed("the log has no pace".to_owned()))
}

fn slowest(log: &str) -> Option<Pace> {
    log.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["kind"] == "pace")
        .filter_map(|line| {
            Some(Pace {
                call_ns: line["call_ns"]["median"].as_u64()?,
                each_ns: line["each_ns"]["median"].as_u64()?,
                whole: json!({ "call_ns": line["call_ns"], "each_ns": line["each_ns"] }),
            })
        })
        .max_by_key(|pace| pace.call_ns)
}
