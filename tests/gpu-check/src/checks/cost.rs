//! What listening costs: the same small all-reduce again and again, with nobody listening and with somebody.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::job::{Job, Listener, Shape};
use crate::outcome::{Facts, Outcome};
use crate::plan::Context;
use crate::process;

/// 64 bytes: nothing but latency.
const ELEMENTS: u32 = 16;
const MOST_ITERATIONS: u64 = 1_000_000;
/// Each is run so often, in turn with the others: what else goes on then meets all of them.
const TURNS: usize = 2;

/// Somebody who listens.
struct Variant {
    name: &'static str,
    listener: Listener,
    variables: &'static [(&'static str, &'static str)],
}

const fn variant(
    name: &'static str,
    listener: Listener,
    variables: &'static [(&'static str, &'static str)],
) -> Variant {
    Variant {
        name,
        listener,
        variables,
    }
}

/// Callbacks: GPU work is left alone.
pub(crate) fn callback_cost(context: &Context<'_>) -> Outcome {
    compare(
        context,
        &[
            variant("none", Listener::Nobody, &[]),
            variant("empty", Listener::EmptyPlugin, &[]),
            variant(
                "light",
                Listener::Recording,
                &[("NCCL_OTF2_EVENTS", "light")],
            ),
            variant(
                "standard",
                Listener::Recording,
                &[("NCCL_OTF2_EVENTS", "standard")],
            ),
            variant("full", Listener::Recording, &[("NCCL_OTF2_EVENTS", "full")]),
        ],
    )
}

/// The plugin alone, called as NCCL calls it: no GPU, and no NCCL, is in these times.
pub(crate) fn callbacks_alone(context: &Context<'_>) -> Outcome {
    let threads = if context.machine.cpus >= 8 {
        "1,8"
    } else {
        "1"
    };
    let mut facts = Facts::new();
    for set in ["light", "standard", "full"] {
        let mut command = Command::new(context.bundle.bench());
        command
            .args(["bench", "--json"])
            .arg(context.bundle.plugin());
        command.arg("--empty").arg(context.bundle.empty_plugin());
        command.args(["--pin", "--threads", threads, "--seconds"]);
        command.arg(if context.is_fake { "0.2" } else { "2" });
        command.env("NCCL_OTF2_EVENTS", set);
        command.env("NCCL_OTF2_FINALIZE", "offline");
        command.env("NCCL_OTF2_DIR", context.work.join(format!("{set}-%p")));
        let ran = match process::run(&mut command, context.left(), &context.work.join(set)) {
            Ok(ran) if ran.succeeded() => ran,
            Ok(ran) => return Outcome::failed(format!("{set}: {}", ran.how_it_ended())),
            Err(error) => return Outcome::failed(format!("cannot run plugin-host: {error}")),
        };
        let Ok(measured) = serde_json::from_str::<Value>(&ran.stdout) else {
            return Outcome::failed(format!("{set}: plugin-host gave no JSON"));
        };
        let median = |who: &str| measured[who][0]["overall"]["p50_ns"].as_f64();
        let (Some(ours), Some(empty)) = (median("cases"), median("empty")) else {
            return Outcome::failed(format!("{set}: plugin-host compared nothing"));
        };
        facts.insert(format!("{set}_more_p50_ns"), json!((ours - empty).round()));
        facts.insert(set.to_owned(), measured);
    }
    Outcome::of(&[], facts)
}

/// GPU work: the events recorded are the same.
pub(crate) fn cupti_cost(context: &Context<'_>) -> Outcome {
    compare(
        context,
        &[
            variant("off", Listener::Recording, &[("NCCL_OTF2_GPU", "off")]),
            variant(
                "events",
                Listener::Recording,
                &[("NCCL_OTF2_GPU", "events")],
            ),
            variant("cupti", Listener::Recording, &[("NCCL_OTF2_GPU", "cupti")]),
        ],
    )
}

fn compare(context: &Context<'_>, variants: &[Variant]) -> Outcome {
    let Some(shape) = context.shape() else {
        return Outcome::not_here(
            "NCCL lets only one rank use this machine's GPU, and launches nothing for one",
        );
    };
    match measure(context, shape, variants) {
        Ok(facts) => Outcome::of(&[], facts),
        Err(outcome) => outcome,
    }
}

fn measure(context: &Context<'_>, shape: &Shape, variants: &[Variant]) -> Result<Facts, Outcome> {
    let first = if context.is_fake { 64 } else { 2048 };
    let pace = pace(context, shape, &variants[0], first, "pace")?;
    let iterations = fitting(context, &pace, variants.len() * TURNS);
    let mut facts = Facts::new();
    facts.insert("shape".to_owned(), json!(shape.words));
    facts.insert("bytes".to_owned(), json!(ELEMENTS * 4));
    facts.insert("iterations".to_owned(), json!(iterations));
    let mut seen: Vec<Vec<Pace>> = variants.iter().map(|_| Vec::new()).collect();
    let turns = if context.is_fake { 1 } else { TURNS };
    for turn in 0..turns {
        for (variant, paces) in variants.iter().zip(&mut seen) {
            if context.left() < Duration::from_secs(4) {
                facts.insert("cut_short".to_owned(), json!(true));
                break;
            }
            let name = format!("{}-{turn}", variant.name);
            paces.push(self::pace(context, shape, variant, iterations, &name)?);
            // A million calls are hundreds of megabytes.
            let _ = std::fs::remove_dir_all(Job::archive(context, &name));
        }
    }
    let best = |paces: &[Pace], of: fn(&Pace) -> u64| paces.iter().map(of).min();
    let base = (
        best(&seen[0], |pace| pace.call_ns),
        best(&seen[0], |pace| pace.each_ns),
    );
    for (variant, paces) in variants.iter().zip(&seen) {
        let call_ns = best(paces, |pace| pace.call_ns);
        let each_ns = best(paces, |pace| pace.each_ns);
        let more = |value: Option<u64>, base: Option<u64>| {
            let (value, base) = (i64::try_from(value?).ok()?, i64::try_from(base?).ok()?);
            Some(value - base)
        };
        facts.insert(format!("{}_call_ns", variant.name), json!(call_ns));
        facts.insert(
            variant.name.to_owned(),
            json!({
                "call_ns": call_ns,
                "each_ns": each_ns,
                "call_more_ns": more(call_ns, base.0),
                "each_more_ns": more(each_ns, base.1),
                "turns": paces.iter().map(|pace| pace.whole.clone()).collect::<Vec<_>>(),
            }),
        );
    }
    Ok(facts)
}

/// As many as fit into the time, but no more than a million.
fn fitting(context: &Context<'_>, pace: &Pace, runs: usize) -> u64 {
    if context.is_fake {
        return 64;
    }
    // Half of the time is for beginnings and ends: a communicator takes seconds.
    let ns = context.left().as_nanos() / 2 / runs.max(1) as u128;
    let fit = ns / u128::from(pace.each_ns.max(1));
    u64::try_from(fit)
        .unwrap_or(u64::MAX)
        .clamp(64, MOST_ITERATIONS)
}

/// Means of the slowest rank: of half of the batches at most.
struct Pace {
    call_ns: u64,
    each_ns: u64,
    /// As logged.
    whole: Value,
}

fn pace(
    context: &Context<'_>,
    shape: &Shape,
    variant: &Variant,
    iterations: u64,
    name: &str,
) -> Result<Pace, Outcome> {
    let log = context.work.join(format!("{name}.log"));
    let mut job = Job::new(shape, "repeat")
        .listener(variant.listener)
        .argument("--count", ELEMENTS)
        .argument("--iterations", iterations)
        .argument("--log", log.display());
    for (variable, value) in variant.variables {
        job = job.variable(variable, *value);
    }
    job.limit = context.left();
    let ran = job.run(context, name)?;
    if !ran.succeeded() {
        return Err(Outcome::failed(format!("{name}: {}", ran.how_it_ended())));
    }
    let text = std::fs::read_to_string(context.work.join(format!("{name}.log.0.jsonl")))
        .map_err(|error| Outcome::failed(format!("{name}: no log of nccl-host: {error}")))?;
    slowest(&text).ok_or_else(|| Outcome::failed(format!("{name}: the log has no pace")))
}

/// Of the ranks of one process, the one that took longest to call.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_counts() {
        let log = r#"{"kind":"start"}
{"kind":"pace","rank":0,"call_ns":{"min":1,"median":20,"mean":3},"each_ns":{"min":1,"median":70,"mean":3}}
{"kind":"pace","rank":1,"call_ns":{"min":1,"median":30,"mean":3},"each_ns":{"min":1,"median":60,"mean":3}}
"#;
        let pace = slowest(log).unwrap();
        assert_eq!((pace.call_ns, pace.each_ns), (30, 60));
        assert!(slowest("{\"kind\":\"end\"}").is_none());
    }
}
