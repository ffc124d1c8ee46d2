//! Two users of CUPTI in one process.

use std::time::Duration;

use cupti_sys::constants::{KIND_CONCURRENT_KERNEL, KIND_EXTERNAL_CORRELATION};
use serde_json::json;

use super::Answer;
use super::driver::Driver;
use super::gpu::Gpu;
use super::tool::{Cupti, Family, of_kind};
use crate::options::ProbeRequest;
use crate::outcome::Outcome;

/// Who comes first, and who second.
pub(crate) const ORDERS: &[&str] = &[
    "global,global",
    "global,alone",
    "global,shared",
    "alone,global",
    "alone,shared",
    "shared,global",
    "shared,alone",
    "shared,shared",
];

/// Subscribes both; then whether the first still has its records.
pub(super) fn in_order(request: &ProbeRequest, order: &str) -> Answer {
    let Some((first, second)) = order.split_once(',') else {
        return Err(Outcome::failed(format!("{order}: not two users")));
    };
    let gpu = Gpu::start(request)?;
    let cupti = Cupti::load(request)?;
    let driver = Driver::load(request.driver.as_deref())?;
    let mut facts = cupti.facts();
    facts.insert("cuda_of_driver".to_owned(), json!(driver.version().ok()));
    let tool = match cupti.subscribe(family(first)?) {
        Ok(tool) => tool,
        Err((code, holder)) => {
            facts.insert("first".to_owned(), json!(code.to_string()));
            facts.insert("first_holder".to_owned(), json!(holder));
            return Ok(Outcome::of(&[], facts));
        }
    };
    facts.insert("first".to_owned(), json!("subscribed"));
    // 13.0 to 13.2 have subscribers without all of their functions.
    let turned_on = tool.turn_on(&[KIND_EXTERNAL_CORRELATION, KIND_CONCURRENT_KERNEL], true);
    if let Err(refused) = &turned_on {
        facts.insert("first_records".to_owned(), json!(refused.why()));
    }
    match cupti.subscribe(family(second)?) {
        Ok(other) => {
            facts.insert("second".to_owned(), json!("subscribed"));
            facts.insert(
                "second_ends".to_owned(),
                json!(other.unsubscribe().to_string()),
            );
        }
        Err((code, holder)) => {
            facts.insert("second".to_owned(), json!(code.to_string()));
            facts.insert("second_holder".to_owned(), json!(holder));
        }
    }
    if turned_on.is_err() {
        return Ok(Outcome::of(&[], facts));
    }
    gpu.launch(10)?;
    gpu.synchronize()?;
    let records = tool.records(Duration::from_secs(2), |records| {
        of_kind(records, KIND_CONCURRENT_KERNEL).len() >= 10
    })?;
    let kernels = of_kind(&records, KIND_CONCURRENT_KERNEL).len();
    facts.insert("kernel_records_of_first".to_owned(), json!(kernels));
    // Whatever comes out is a fact about CUPTI; the plugin's own checks say how it copes.
    Ok(Outcome::of(&[], facts))
}

fn family(word: &str) -> Result<Family, Outcome> {
    match word {
        "global" => Ok(Family::Global),
        "alone" => Ok(Family::Own { shared: false }),
        "shared" => Ok(Family::Own { shared: true }),
        other => Err(Outcome::failed(format!(
            "{other}: no family of CUPTI's functions"
        ))),
    }
}
