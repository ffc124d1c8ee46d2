//! The ways that NCCL chose for a communicator on one host: channels over GPUs and network interfaces.

use std::fmt;
use std::str::FromStr;

use roxmltree::Node;

use crate::names::{GraphKind, PathType};
use crate::system::System;
use crate::xml::{Error, needed, number, parse};

/// The graph of one algorithm: NCCL's channels `n`, `2n` and so on repeat those of a graph of `n`.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// What it is for.
    pub kind: GraphKind,
    /// NCCL's number of the pattern: 4 is a ring, 1 to 3 are trees.
    pub pattern: u32,
    /// Bandwidth of a channel between GPUs of the host, in GB/s.
    pub speed_intra: f64,
    /// Bandwidth of a channel between hosts, in GB/s.
    pub speed_inter: f64,
    /// Latency that network interfaces state, in µs.
    pub latency_inter: f64,
    /// The longest way between GPUs; `None` if this version does not know its name.
    pub type_intra: Option<PathType>,
    /// The longest way from a GPU to a network interface.
    pub type_inter: Option<PathType>,
    /// The channels.
    pub channels: Vec<Channel>,
}

/// A channel on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The network interface of the first rank; `None` in a communicator of one host.
    pub net_in: Option<u64>,
    /// Ranks in the order of the channel. The graph of NVLS has only the first.
    pub ranks: Vec<u32>,
    /// The network interface of all other ranks.
    pub net_out: Option<u64>,
}

impl Graph {
    /// Reads the file that `NCCL_GRAPH_DUMP_FILE` names. `system` is of the same communicator: up to NCCL 2.25, graphs
    /// have numbers of devices only.
    ///
    /// # Errors
    /// If the text is not XML, or not such a file; if a GPU has no rank.
    pub fn parse_all(text: &str, system: &System) -> Result<Vec<Self>, Error> {
        let document = parse(text, "graphs")?;
        let graphs = document.root_element().children().filter(|it| it.has_tag_name("graph"));
        let mut all = Vec::new();
        for node in graphs {
            let id: u32 = needed(node, "id")?;
            let Some(kind) = GraphKind::ALL.iter().find(|kind| kind.number() == id) else {
                continue;
            };
            let channels = node.children().filter(|it| it.has_tag_name("channel"));
            let way = |name| node.attribute(name).and_then(PathType::named);
            let graph = Self {
                kind: *kind,
                pattern: needed(node, "pattern")?,
                speed_intra: speed(node.attribute("speedintra"))?,
                speed_inter: speed(node.attribute("speedinter"))?,
                latency_inter: node.attribute("latencyinter").map_or(Ok(0.0), |text| speed(Some(text)))?,
                type_intra: way("typeintra"),
                type_inter: way("typeinter"),
                channels: channels.map(|it| channel(it, system)).collect::<Result<_, _>>()?,
            };
            if !graph.channels.is_empty() {
                all.push(graph);
            }
        }
        Ok(all)
    }

    /// The network interface that a rank uses on a channel, as `ncclTopoGetNetDev` finds it.
    pub fn nic(&self, rank: u32, channel: u32) -> Option<u64> {
        let index = |length: usize| usize::try_from(channel).ok()?.checked_rem(length);
        if self.kind == GraphKind::Nvls {
            let own = self.channels.iter().filter(|it| it.ranks.first() == Some(&rank));
            let own: Vec<u64> = own.filter_map(|it| it.net_in).collect();
            return own.get(index(own.len())?).copied();
        }
        let channel = self.channels.get(index(self.channels.len())?)?;
        if !channel.ranks.contains(&rank) {
            return None;
        }
        if channel.ranks.first() == Some(&rank) { channel.net_in } else { channel.net_out }
    }

    /// The ranks on this host, ascending; empty for NVLS, whose graph has only the first of each channel.
    pub fn ranks(&self) -> Vec<u32> {
        let mut ranks = match (self.kind, self.channels.first()) {
            (GraphKind::Nvls, _) | (_, None) => Vec::new(),
            (_, Some(channel)) => channel.ranks.clone(),
        };
        ranks.sort_unstable();
        ranks
    }

    /// Whether its communicator is on several hosts.
    pub fn has_network(&self) -> bool {
        self.channels.iter().any(|it| it.net_in.is_some())
    }
}

fn speed(text: Option<&str>) -> Result<f64, Error> {
    let number = text.and_then(|text| text.parse().ok());
    let number = number.filter(|it: &f64| it.is_finite() && *it >= 0.0);
    number.ok_or_else(|| Error(format!("{:?} is no speed of a graph", text.unwrap_or_default())))
}

fn channel(node: Node<'_, '_>, system: &System) -> Result<Channel, Error> {
    let mut channel = Channel::default();
    for device in node.children() {
        match device.tag_name().name() {
            // NCCL writes -1 where it found no interface.
            "net" => {
                let dev = number(device, "dev").filter(|dev| *dev != u64::MAX);
                let place = if channel.ranks.is_empty() { &mut channel.net_in } else { &mut channel.net_out };
                *place = dev;
            }
            "gpu" => {
                let of_system = || {
                    let dev = number(device, "dev")?;
                    system.gpus.iter().find(|gpu| gpu.dev == dev).map(|gpu| gpu.rank)
                };
                let rank = needed(device, "rank").ok().or_else(of_system);
                channel.ranks.push(rank.ok_or_else(|| Error("a GPU of a channel has no rank".to_owned()))?);
            }
            _ => {}
        }
    }
    Ok(channel)
}

/// As in `id=RING pattern=4 intra=24:NVL inter=12:PIX latency=0 channel=0:3,2,1,0:0 channel=1:2,3,0,1:1`.
impl fmt::Display for Graph {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = |way: Option<PathType>| way.map_or("?", PathType::name);
        let (intra, inter) = (way(self.type_intra), way(self.type_inter));
        write!(to, "id={} pattern={} intra={}:{intra}", self.kind.name(), self.pattern, self.speed_intra)?;
        write!(to, " inter={}:{inter} latency={}", self.speed_inter, self.latency_inter)?;
        for channel in &self.channels {
            let net = |net: Option<u64>| net.map_or("-".to_owned(), |net| net.to_string());
            let ranks: Vec<String> = channel.ranks.iter().map(u32::to_string).collect();
            write!(to, " channel={}:{}:{}", net(channel.net_in), ranks.join(","), net(channel.net_out))?;
        }
        Ok(())
    }
}

impl FromStr for Graph {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error(format!("{text:?} is no graph"));
        let value = |name: &str| {
            let found = text.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            found.ok_or_else(bad)
        };
        let pair = |name: &str| value(name)?.split_once(':').ok_or_else(bad);
        let channels = text.split(' ').filter_map(|field| field.strip_prefix("channel="));
        let channels = channels.map(|text| {
            let mut parts = text.split(':');
            let (net_in, ranks, net_out) = (parts.next()?, parts.next()?, parts.next()?);
            let net = |text: &str| if text == "-" { Some(None) } else { text.parse().ok().map(Some) };
            let ranks = ranks.split(',').filter(|rank| !rank.is_empty()).map(|rank| rank.parse().ok());
            Some(Channel { net_in: net(net_in)?, ranks: ranks.collect::<Option<_>>()?, net_out: net(net_out)? })
        });
        let ((speed_intra, intra), (speed_inter, inter)) = (pair("intra")?, pair("inter")?);
        Ok(Self {
            kind: GraphKind::named(value("id")?).ok_or_else(bad)?,
            pattern: value("pattern")?.parse().map_err(|_| bad())?,
            speed_intra: speed(Some(speed_intra))?,
            speed_inter: speed(Some(speed_inter))?,
            latency_inter: speed(Some(value("latency")?))?,
            type_intra: PathType::named(intra),
            type_inter: PathType::named(inter),
            channels: channels.collect::<Option<_>>().ok_or_else(bad)?,
        })
    }
}
