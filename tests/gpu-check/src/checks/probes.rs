//! Questions to CUPTI and the driver: this program again, in a process for each.

use std::process::Command;

use serde_json::json;

use crate::outcome::{Facts, Outcome, Verdict};
use crate::plan::Context;
use crate::process::{self, Ran};

/// CUPTI takes a refused buffer from this version on.
const MAY_BE_REFUSED: u64 = cupti_sys::constants::VERSION_BUFFER_MAY_BE_REFUSED as u64;

/// Asks one question.
pub(crate) fn probe(context: &Context<'_>, name: &str) -> Outcome {
    match ask(context, name, &[]) {
        Ok(ran) => answer(&ran),
        Err(outcome) => outcome,
    }
}

fn ask(context: &Context<'_>, name: &str, variables: &[(&str, &str)]) -> Result<Ran, Outcome> {
    let me = std::env::current_exe()
        .map_err(|error| Outcome::failed(format!("cannot find this program: {error}")))?;
    let machine = context.machine;
    let mut command = Command::new(me);
    command.args(["--probe", name]);
    for (option, value) in [
        ("--cupti", &machine.cupti),
        ("--cudart", &machine.cudart),
        ("--driver", &machine.driver),
    ] {
        if let Some(value) = value {
            command.arg(option).arg(value);
        }
    }
    if context.is_fake {
        command.arg("--double");
    }
    command.env("LD_LIBRARY_PATH", machine.library_path());
    command.envs(variables.iter().copied());
    process::run(&mut command, context.left(), &context.work.join(name))
        .map_err(|error| Outcome::failed(format!("cannot run the probe: {error}")))
}

fn answer(ran: &Ran) -> Outcome {
    let told = ran.stdout.lines().next_back().and_then(Outcome::from_json);
    match told {
        Some(outcome) if ran.succeeded() => outcome,
        Some(outcome) => Outcome::new(
            Verdict::Failed(format!("it answered, and then: {}", ran.how_it_ended())),
            outcome.facts,
        ),
        None => Outcome::failed(ran.how_it_ended()),
    }
}

/// External ids in both families, where the release has both.
pub(crate) fn function_ids(context: &Context<'_>) -> Outcome {
    let mut facts = Facts::new();
    let mut wrong = Vec::new();
    for family in ["global", "own"] {
        let outcome = match ask(context, "ids", &[("GPU_CHECK_FAMILY", family)]) {
            Ok(ran) => answer(&ran),
            Err(outcome) => outcome,
        };
        if let Verdict::Failed(why) = &outcome.verdict {
            wrong.push(format!("{family}: {why}"));
        }
        facts.insert(family.to_owned(), outcome.to_json());
        if let Some(joined) = outcome.facts.get("joined") {
            facts.insert(format!("{family}_joined"), joined.clone());
        }
    }
    let not_here = |family: &str| facts[family]["verdict"] == "not here";
    if not_here("global") && not_here("own") {
        let why = facts["global"]["why"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        return Outcome::new(Verdict::NotHere(why), facts);
    }
    Outcome::of(&wrong, facts)
}

/// A crash is an answer here.
pub(crate) fn refused_buffer(context: &Context<'_>) -> Outcome {
    let ran = match ask(context, "refuse", &[]) {
        Ok(ran) => ran,
        Err(outcome) => return outcome,
    };
    let version = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("cupti ")?.parse::<u64>().ok());
    let Some(version) = version else {
        return answer(&ran);
    };
    let survived = ran.succeeded();
    let mut facts = answer(&ran).facts;
    facts.insert("cupti_version".to_owned(), json!(version));
    facts.insert("survived".to_owned(), json!(survived));
    facts.insert("signal".to_owned(), json!(ran.signal()));
    let mut wrong = Vec::new();
    if version >= MAY_BE_REFUSED && !survived {
        wrong.push(format!(
            "this release was to take a refused buffer: {}",
            ran.how_it_ended()
        ));
    }
    Outcome::of(&wrong, facts)
}

/// Each order of two users in a process of its own: which family came first is settled for a process's life.
pub(crate) fn two_tools(context: &Context<'_>) -> Outcome {
    let mut facts = Facts::new();
    let mut wrong = Vec::new();
    for order in crate::probe::ORDERS {
        let outcome = probe(context, &format!("tools:{order}"));
        match &outcome.verdict {
            Verdict::Failed(why) => wrong.push(format!("{order}: {why}")),
            Verdict::NotHere(why) => {
                facts.insert((*order).to_owned(), json!(why));
            }
            Verdict::Ok => {
                facts.insert((*order).to_owned(), json!(outcome.facts));
            }
        }
    }
    Outcome::of(&wrong, facts)
}

/// By the GPU's name alone, and in turned order where there are two.
pub(crate) fn device_order(context: &Context<'_>) -> Outcome {
    let orders: &[&str] = if context.machine.gpus > 1 {
        &["0", "1,0"]
    } else {
        &["0"]
    };
    let mut facts = Facts::new();
    let mut wrong = Vec::new();
    for order in orders {
        let outcome = match ask(context, "layout", &[("CUDA_VISIBLE_DEVICES", order)]) {
            Ok(ran) => answer(&ran),
            Err(outcome) => outcome,
        };
        if let Verdict::Failed(why) = &outcome.verdict {
            wrong.push(format!("CUDA_VISIBLE_DEVICES={order}: {why}"));
        }
        facts.insert(
            format!("cupti_device_with_{order}"),
            outcome.facts.get("device").cloned().unwrap_or_default(),
        );
    }
    if context.machine.gpus < 2 {
        facts.insert(
            "not_shown".to_owned(),
            json!("the turned order: this machine has one GPU; MIG: this program sets none up"),
        );
    }
    Outcome::of(&wrong, facts)
}
