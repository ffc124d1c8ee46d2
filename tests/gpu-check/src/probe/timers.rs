//! Questions about time: clocks, and what CUPTI costs.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cupti_sys::constants::{KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION};
use cupti_sys::record::kernel;
use serde_json::json;

use super::Answer;
use super::gpu::Gpu;
use super::questions::{PATIENCE, first_tool};
use super::tool::{Cupti, of_kind};
use crate::options::ProbeRequest;
use crate::outcome::{Facts, Outcome};

const KINDS: [u32; 2] = [KIND_EXTERNAL_CORRELATION, KIND_CONCURRENT_KERNEL];

fn unix_ns() -> i128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0))
}

/// CUPTI's clock between two readings of the system's.
pub(super) fn clock(request: &ProbeRequest) -> Answer {
    const READINGS: usize = 2000;
    let _gpu = Gpu::start(request)?;
    let cupti = Cupti::load(request)?;
    let mut narrowest = (i128::MAX, 0);
    let mut widths = Vec::new();
    for _ in 0..READINGS {
        let before = unix_ns();
        let shown = i128::from(cupti.timestamp()?);
        let after = unix_ns();
        let width = after - before;
        widths.push(width);
        if width < narrowest.0 {
            narrowest = (width, shown - before - width / 2);
        }
    }
    widths.sort_unstable();
    let (width, offset) = narrowest;
    let mut facts = cupti.facts();
    facts.insert("least_width_ns".to_owned(), json!(small(width)));
    facts.insert(
        "median_width_ns".to_owned(),
        json!(widths.get(READINGS / 2).copied().map(small)),
    );
    facts.insert("offset_ns".to_owned(), json!(small(offset)));
    facts.insert(
        "ntp_step".to_owned(),
        json!("not run: it would set this machine's clock"),
    );
    let is_system_clock = offset.abs() <= width.max(1000) * 2;
    facts.insert("is_clock_realtime".to_owned(), json!(is_system_clock));
    // The plugin places CUPTI's times by samples, whatever clock it is: any answer will do.
    Ok(Outcome::of(&[], facts))
}

fn small(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The GPU's own timer, in kernels whose start and end CUPTI tells.
pub(super) fn gpu_clock(request: &ProbeRequest) -> Answer {
    const READINGS: u32 = 100_000;
    const KERNELS: u32 = 40;
    let gpu = Gpu::start(request)?;
    let (device, stream) = gpu.device()?;
    let cupti = Cupti::load(request)?;
    let steps = steps(&device.timer(stream, READINGS)?);
    let tool = first_tool(&cupti, None)?;
    tool.turn_on(&KINDS, true)?;
    let (mut leads, mut trails) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for _ in 0..KERNELS {
        let stamps = device.timer(stream, 100)?;
        let records = tool.records(PATIENCE, |records| {
            !of_kind(records, KIND_CONCURRENT_KERNEL).is_empty()
        })?;
        let Some(record) = of_kind(&records, KIND_CONCURRENT_KERNEL).first().copied() else {
            return Ok(Outcome::failed("no kernel record came"));
        };
        let first = stamps.first().copied().unwrap_or(0);
        let last = stamps.last().copied().unwrap_or(0);
        let (start, end) = (
            kernel::START.of(&record.0).unwrap_or(0),
            kernel::END.of(&record.0).unwrap_or(0),
        );
        leads.push(i128::from(first) - i128::from(start));
        trails.push(i128::from(end) - i128::from(last));
        std::thread::sleep(Duration::from_millis(500));
    }
    let mut facts = cupti.facts();
    facts.insert("timer_steps_ns".to_owned(), steps);
    facts.insert("seconds".to_owned(), json!(began.elapsed().as_secs()));
    for (name, values) in [
        ("first_stamp_after_start_ns", &leads),
        ("end_after_last_stamp_ns", &trails),
    ] {
        let (min, max) = (values.iter().min(), values.iter().max());
        facts.insert(
            name.to_owned(),
            json!({ "min": min.copied().map(small), "max": max.copied().map(small) }),
        );
    }
    // A timer that steps by a microsecond may show the time before the kernel's start.
    let bracketed = leads
        .iter()
        .chain(&trails)
        .all(|off| *off >= -2000 && *off < 1_000_000);
    facts.insert("bracketed".to_owned(), json!(bracketed));
    let offset = leads.iter().sum::<i128>() / i128::from(KERNELS);
    facts.insert("timer_minus_cupti_ns".to_owned(), json!(small(offset)));
    facts.insert(
        "ten_minutes".to_owned(),
        json!("not run: all checks end within ten"),
    );
    let drift = leads.last().copied().unwrap_or(0) - leads.first().copied().unwrap_or(0);
    facts.insert("drift_ns".to_owned(), json!(small(drift)));
    // The plugin fits the GPU's timer to joined kernels, so an offset is no fault.
    Ok(Outcome::of(&[], facts))
}

/// How often which step between two readings.
fn steps(stamps: &[u64]) -> serde_json::Value {
    const MOST: usize = 12;
    let mut steps = std::collections::BTreeMap::<u64, u64>::new();
    for pair in stamps.windows(2) {
        if let [before, after] = pair {
            *steps.entry(after.wrapping_sub(*before)).or_default() += 1;
        }
    }
    let mut all: Vec<(u64, u64)> = steps.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let most: Vec<_> = all.iter().take(MOST).collect();
    json!({ "different": all.len(), "step_and_count": most })
}

/// Launches before those that are timed.
const WARM_UP: u32 = 1000;

/// Empty kernels as fast as they can be launched.
pub(super) fn storm(request: &ProbeRequest) -> Answer {
    let gpu = Gpu::start(request)?;
    let most: u32 = if request.double { 2_000 } else { 1_000_000 };
    let mut facts = Facts::new();
    let untouched = per_kernel(&gpu, most)?;
    facts.insert("kernels".to_owned(), json!(most));
    facts.insert("without_ns".to_owned(), json!(untouched));
    let free = || match &gpu {
        Gpu::Real(device, _) => device.free_bytes().ok(),
        Gpu::Double(_) => None,
    };
    let free_before = free();
    let cupti = Cupti::load(request)?;
    let tool = first_tool(&cupti, None)?;
    let mut wrong = Vec::new();
    for (name, launches, more) in [
        ("kernels", false, None),
        ("launches", true, None),
        ("all_calls", true, Some(KIND_DRIVER)),
    ] {
        let mut kinds = KINDS.to_vec();
        kinds.extend(more);
        tool.turn_on(&kinds, launches)?;
        let began = Instant::now();
        let ns = per_kernel(&gpu, most)?;
        let (mut records, mut bytes) = (0, 0);
        let launched = u64::from(most + WARM_UP.min(most));
        let expected = launched * if launches { 2 } else { 1 };
        // A flush may give back a part only.
        let until = Instant::now() + PATIENCE;
        while records < expected && Instant::now() < until {
            let (more, more_bytes) = tool.count()?;
            records += more;
            bytes += more_bytes;
        }
        if records < expected {
            wrong.push(format!(
                "{name}: {records} records of {expected}, {} said to be dropped",
                tool.dropped()
            ));
        }
        facts.insert(format!("{name}_ns"), json!(ns));
        facts.insert(
            format!("{name}_data"),
            json!({ "records": records, "bytes": bytes, "with_flush_ms": began.elapsed().as_millis() }),
        );
        tool.turn_off(&kinds);
    }
    let taken = free_before
        .zip(free())
        .map(|(before, after)| before.saturating_sub(after));
    facts.insert("device_bytes".to_owned(), json!(taken));
    facts.extend(cupti.facts());
    Ok(Outcome::of(&wrong, facts))
}

/// Nanoseconds from launch to launch, the wait for the last included.
fn per_kernel(gpu: &Gpu, count: u32) -> Result<u64, Outcome> {
    gpu.launch(WARM_UP.min(count))?;
    gpu.synchronize()?;
    let began = Instant::now();
    gpu.launch(count)?;
    gpu.synchronize()?;
    let ns = began.elapsed().as_nanos() / u128::from(count.max(1));
    Ok(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_the_most_frequent_first() {
        let steps = steps(&[0, 32, 64, 64, 96]);
        assert_eq!(steps["different"], 2);
        assert_eq!(steps["step_and_count"][0], json!([32, 3]));
    }
}
