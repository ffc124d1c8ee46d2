//! Questions to CUPTI and the driver: this program again, in a process for each.

use serde_json::{Value, json};

use crate::context::Context;
use crate::outcome::{Answer, Outcome, Problems, Verdict, with};
use crate::process::{self, ProcessOutput};

/// CUPTI takes a refused buffer from this version on.
const MAY_BE_REFUSED: u64 = cupti_sys::constants::VERSION_BUFFER_MAY_BE_REFUSED as u64;

pub(crate) fn probe(context: &Context<'_>, name: &str) -> Answer {
    ask(context, name).map(|ran| answer(&ran))
}

fn ask(context: &Context<'_>, name: &str) -> Result<ProcessOutput, Outcome> {
    let me = std::env::current_exe().map_err(|error| Outcome::failed(format!("cannot find this program: {error}")))?;
    let machine = context.machine;
    let mut command = process::program(me, context.left());
    command.args(["--probe", name]);
    for (option, value) in [("--cupti", &machine.cupti), ("--driver", &machine.driver)] {
        if let Some(value) = value {
            command.arg(option).arg(value);
        }
    }
    if context.is_fake {
        command.arg("--double");
    }
    command.env("LD_LIBRARY_PATH", machine.library_path());
    process::run(&mut command, &context.work.join(name))
}

fn answer(ran: &ProcessOutput) -> Outcome {
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
fn each(context: &Context<'_>, name: &str, ways: &[&str]) -> Answer {
    let (mut facts, mut wrong, mut asked) = (json!({}), Problems::default(), false);
    for way in ways {
        let outcome = probe(context, &format!("{name}:{way}")).unwrap_or_else(|outcome| outcome);
        wrong.unless(outcome.verdict != Verdict::Failed, format!("{way}: {}", outcome.why));
        asked |= outcome.verdict != Verdict::NotHere;
        facts[*way] = json!(outcome);
    }
    let not_here = Outcome::not_here("in none of the ways");
    Ok(if asked { Outcome::from_problems(&wrong, facts) } else { Outcome { facts, ..not_here } })
}

pub(crate) fn function_ids(context: &Context<'_>) -> Answer {
    each(context, "ids", &["global", "own"])
}

/// Each order of two users in a process of its own: the family of the first user holds for a process's life.
pub(crate) fn two_tools(context: &Context<'_>) -> Answer {
    each(context, "tools", &crate::probe::ORDERS.split(' ').collect::<Vec<_>>())
}

/// A crash is an answer here.
pub(crate) fn refused_buffer(context: &Context<'_>) -> Answer {
    let ran = ask(context, "refuse")?;
    let told = ran.stdout.lines().find_map(|line| line.strip_prefix("cupti ")?.parse().ok());
    let Some(version): Option<u64> = told else {
        return Ok(answer(&ran));
    };
    let survived = ran.succeeded();
    let mut wrong = Problems::default();
    let is_as_supposed = survived || version < MAY_BE_REFUSED;
    wrong.unless(is_as_supposed, format!("this release was to take a refused buffer: {}", ran.how_it_ended()));
    let facts: Value = json!({ "survived": survived, "signal": ran.signal() });
    Ok(Outcome::from_problems(&wrong, with(facts, answer(&ran).facts)))
}
