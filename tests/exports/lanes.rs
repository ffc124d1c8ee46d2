//! The rows in which exports show an archive: locations, and the channels and connections that records belong to.

use whole_plugin::regions::Region;

/// The row of a region instance or record.
pub(crate) fn row_of(region: &Region) -> String {
    if region.text("nccl.region").is_none() {
        return region.location.clone();
    }
    let text = |attribute: &str| region.text(attribute).unwrap_or_default();
    let channel = format!("{:0>2}", text("nccl.channel"));
    let rank = match region.text("nccl.comm") {
        Some(comm) => format!("{comm} r{}", text("nccl.rank")),
        None => region.text("nccl.origin").unwrap_or("unknown rank").to_owned(),
    };
    let arrow = if region.name.to_lowercase().contains("send") { "send→" } else { "recv←" };
    let connection = format!("net {rank} ch{channel} {arrow}{}", text("nccl.peer"));
    let slot = || region.number("nccl.step").unwrap_or(0) % 8;
    match region.name.as_str() {
        "kernel channel" => format!("{} channel {channel}", region.location),
        _ if region.text("nccl.phase").is_some() => format!("{} channel {channel} phases", region.location),
        "netSend" | "netRecv" => connection,
        "send step" | "receive step" => format!("{connection} s{}", slot()),
        _ => format!("{connection} s{} plugin", slot()),
    }
}

/// The name of a row without the number of a further one for what overlaps.
pub(crate) fn first_of_lane(row: &str) -> &str {
    let is_lane = row.starts_with("net ") || row.contains(" channel ");
    let further = row.rsplit_once(" #").filter(|(_, number)| is_lane && number.parse::<u32>().is_ok());
    further.map_or(row, |(first, _)| first)
}
