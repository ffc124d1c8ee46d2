//! Questions to CUPTI and the driver: this program again, in a process for each.

use std::process::Command;

use serde_json::{Value, json};

use super::whichever;
use crate::context::Context;
use crate::outcome::{Outcome, Verdict, with};
use crate::process::{self, Ran};

/// CUPTI takes a refused buffer from this version on.
const MAY_BE_REFUSED: u64 = cupti_sys::constants::VERSION_BUFFER_MAY_BE_REFUSED as u64;

pub(crate) fn probe(context: &Context<'_>, name: &str) -> Outcome {
    probe_with(context, name, &[])
}

fn probe_with(context: &Context<'_>, name: &str, variables: &[(&str, &str)]) -> Outcome {
    whichever(ask(context, name, variables).map(|ran| answer(&ran)))
}

fn ask(context: &Context<'_>, name: &str, variables: &[(&str, &str)]) -> Result<Ran, Outcome> {
    let me = std::env::current_exe().map_err(|error| Outcome::failed(format!("cannot find this program: {error}")))?;
    let machine = context.machine;
    let mut command = Command::new(me);
    command.args(["--probe", name]);
    for (option, value) in [("--cupti", &machine.cupti), ("--driver", &machine.driver)] {
        if let Some(value) = value {
            command.arg(option).arg(value);
        }
    }
    if context.is_fake {
        command.arg("--double");
    }
    command.env("LD_LIBRARY_PATH", machine.library_path()).envs(variables.iter().copied());
    process::run(&mut command, context.left(), &context.work.join(name))
        .map_err(|error| Outcome::failed(format!("cannot run the probe: {error}")))
}

fn answer(ran: &Ran) -> Outcome {
    let last = ran.stdout.lines().next_back().unwrap_or("");
    match serde_json::from_str::<Outcome>(last) {
        Ok(outcome) if ran.succeeded() => outcome,
        Ok(outcome) => {
            let why = format!("it answered, and then: {}", ran.how_it_ended());
            Outcome { verdict: Verdict::Failed, why, ..outcome }
        }
        Err(_) => Outcome::failed(ran.how_it_ended()),
    }
}

/// The same question in several ways; wrong is what is wrong in any, and where none can be asked it is not here.
fn each(ways: &[&str], ask: impl Fn(&str) -> Outcome) -> Outcome {
    let (mut facts, mut wrong, mut asked) = (json!({}), Vec::new(), false);
    for way in ways {
        let outcome = ask(way);
        if outcome.verdict == Verdict::Failed {
            wrong.push(format!("{way}: {}", outcome.why));
        }
        asked |= outcome.verdict != Verdict::NotHere;
        facts[*way] = json!(outcome);
    }
    let not_here = Outcome::not_here("in none of the ways");
    if asked { Outcome::of(&wrong, facts) } else { Outcome { facts, ..not_here } }
}

/// External ids in both families, where the release has both.
pub(crate) fn function_ids(context: &Context<'_>) -> Outcome {
    each(&["global", "own"], |family| probe(context, &format!("ids:{family}")))
}

/// Each order of two users in a process of its own: which family came first is settled for a process's life.
pub(crate) fn two_tools(context: &Context<'_>) -> Outcome {
    each(crate::probe::ORDERS, |order| probe(context, &format!("tools:{order}")))
}

/// A crash is an answer here.
pub(crate) fn refused_buffer(context: &Context<'_>) -> Outcome {
    whichever(ask(context, "refuse", &[]).map(|ran| {
        let told = ran.stdout.lines().find_map(|line| line.strip_prefix("cupti ")?.parse().ok());
        let Some(version): Option<u64> = told else {
            return answer(&ran);
        };
        let survived = ran.succeeded();
        let mut wrong = Vec::new();
        if version >= MAY_BE_REFUSED && !survived {
            wrong.push(format!("this release was to take a refused buffer: {}", ran.how_it_ended()));
        }
        let facts: Value = json!({ "survived": survived, "signal": ran.signal() });
        Outcome::of(&wrong, with(facts, answer(&ran).facts))
    }))
}
