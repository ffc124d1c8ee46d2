//! Reads the files in which NCCL dumps the topology of a host and the channels that it chose.
//!
//! * [`System`]: `NCCL_TOPO_DUMP_FILE`. The PCI tree of a host with its GPUs and network interfaces.
//! * [`Graph`]: `NCCL_GRAPH_DUMP_FILE`. The channels of a communicator on a host, for each algorithm, with speeds.

#![warn(missing_docs, clippy::missing_panics_doc)]
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use roxmltree::{Document, Node, ParsingOptions};

/// The ways that NCCL chose for a communicator on one host, for one algorithm: NCCL's channels `n`, `2n` and so on
/// repeat those of a graph of `n`.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The kind of algorithm that the graph is for.
    pub kind: GraphKind,
    /// NCCL's number of the pattern: 4 is a ring, 1 to 3 are trees.
    pub pattern: u32,
    /// Bandwidth of a channel between GPUs of the host, in GB/s.
    pub speed_intra: f64,
    /// Bandwidth of a channel between hosts, in GB/s.
    pub speed_inter: f64,
    /// Latency that network interfaces state, in µs.
    pub latency_inter: f64,
    /// The longest path between GPUs; `None` if this version does not know NCCL's name of it.
    pub type_intra: Option<PathType>,
    /// The longest path from a GPU to a network interface; `None` if this version does not know NCCL's name of it.
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
    /// Parses the text of the file that `NCCL_GRAPH_DUMP_FILE` names. `system` must be of the same communicator: up to
    /// NCCL 2.25, graphs identify devices by number only.
    ///
    /// # Errors
    /// If the text is not XML, or not such a file; if a GPU has no rank.
    pub fn parse_all(text: &str, system: &System) -> Result<Vec<Self>, Error> {
        let document = parse(text, "graphs")?;
        let graphs = document.root_element().children().filter(|node| node.has_tag_name("graph"));
        let mut all = Vec::new();
        for node in graphs {
            let id: u32 = needed(node, "id")?;
            let Some(kind) = GraphKind::ALL.iter().find(|kind| kind.number() == id) else {
                continue;
            };
            let channels = node.children().filter(|node| node.has_tag_name("channel"));
            let way = |name| node.attribute(name).and_then(PathType::named);
            let graph = Self {
                kind: *kind,
                pattern: needed(node, "pattern")?,
                speed_intra: speed(node.attribute("speedintra"))?,
                speed_inter: speed(node.attribute("speedinter"))?,
                latency_inter: node.attribute("latencyinter").map_or(Ok(0.0), |text| speed(Some(text)))?,
                type_intra: way("typeintra"),
                type_inter: way("typeinter"),
                channels: channels.map(|node| channel(node, system)).collect::<Result<_, _>>()?,
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
            let own = self.channels.iter().filter(|channel| channel.ranks.first() == Some(&rank));
            let own: Vec<u64> = own.filter_map(|channel| channel.net_in).collect();
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

    /// Whether the communicator has ranks on several hosts.
    pub fn has_network(&self) -> bool {
        self.channels.iter().any(|channel| channel.net_in.is_some())
    }
}

fn speed(text: Option<&str>) -> Result<f64, Error> {
    let number = text.and_then(|text| text.parse().ok());
    let number = number.filter(|value: &f64| value.is_finite() && *value >= 0.0);
    number.ok_or_else(|| Error(format!("{:?} is not a speed of a graph", text.unwrap_or_default())))
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
        let bad = || Error(format!("{text:?} is not a graph"));
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

/// Limit on nested elements around a device. NCCL writes at most a dozen.
const MOST_LEVELS: usize = 64;
/// Limit on GPUs, and on interfaces, because each one is searched for among all. The largest NVLink domains have 576
/// GPUs.
const MOST_DEVICES: usize = 4096;
/// The high byte of NCCL's device numbers is the number of the host in the file.
const HOST_SHIFT: u32 = 56;

/// The network interfaces of a host, and those of its GPUs that belong to one communicator. If NVLink connects hosts of
/// the communicator, its file describes all of these hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// In the order of the file.
    pub gpus: Vec<Gpu>,
    /// In the order of the file.
    pub nics: Vec<Nic>,
}

/// A GPU of the communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// NCCL's number of the device, with the host's in its high byte.
    pub dev: u64,
    /// Its rank in the communicator.
    pub rank: u32,
    /// Address on the PCI bus, as `0000:41:00.0`; empty if the file has none.
    pub pci: String,
    /// Compute capability times ten: 90 is Hopper.
    pub capability: u32,
    /// Whether network interfaces can reach its memory.
    pub gdr: bool,
    /// Number of NVLinks, to other GPUs and switches.
    pub nvlinks: u32,
    /// Position in the tree of the host's devices.
    pub place: Place,
}

/// A network interface, or a port of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// NCCL's number of the device, with the host's in its high byte.
    pub dev: u64,
    /// Its name, as `mlx5_0` or `eth0`.
    pub name: String,
    /// Speed in Mbit/s; `None` if the driver does not state it.
    pub speed_mbps: Option<u64>,
    /// GUID of the hardware; ports of one card share it. `None` if it has none.
    pub guid: Option<u64>,
    /// Number of the port.
    pub port: u32,
    /// Whether it can reach the memory of GPUs.
    pub gdr: bool,
    /// Address on the PCI bus; empty if it is virtual.
    pub pci: String,
    /// Position in the tree of the host's devices.
    pub place: Place,
}

/// The position of a device: its host, its processor, and the PCI bridges between processor and device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the host in the file.
    pub host: u8,
    /// Number of the processor, or NUMA domain, in the file.
    pub cpu: u32,
    /// Addresses of the PCI bridges between processor and device, outermost first.
    pub bridges: Vec<String>,
}

impl System {
    /// Parses the text of the file that `NCCL_TOPO_DUMP_FILE` names.
    ///
    /// # Errors
    /// If the text is not XML, or not such a file.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let document = parse(text, "system")?;
        let mut system = Self::default();
        // NCCL numbers hosts in the order of their processors.
        let mut hosts: Vec<Option<&str>> = Vec::new();
        for (number, cpu) in (0..).zip(document.root_element().children().filter(|node| node.has_tag_name("cpu"))) {
            let hash = cpu.attribute("host_hash");
            let host = hosts.iter().position(|known| *known == hash).unwrap_or(hosts.len());
            if host == hosts.len() {
                hosts.push(hash);
            }
            let host = u8::try_from(host).map_err(|_| Error("more than 256 hosts".to_owned()))?;
            for node in cpu.descendants() {
                match node.tag_name().name() {
                    "gpu" => system.gpus.push(gpu(node, host, number)?),
                    "net" => system.nics.extend(nic(node, host, number)?),
                    _ => {}
                }
                if system.gpus.len().max(system.nics.len()) > MOST_DEVICES {
                    return Err(Error(format!("more than {MOST_DEVICES} GPUs or interfaces")));
                }
            }
        }
        Ok(system)
    }

    /// The network interface with NCCL's number in a graph.
    pub fn nic(&self, dev: u64) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.dev == dev)
    }
}

/// NCCL's number of a device in graphs.
fn device(node: Node<'_, '_>, host: u8) -> Result<u64, Error> {
    let dev: u32 = needed(node, "dev")?;
    Ok(u64::from(host) << HOST_SHIFT | u64::from(dev))
}

/// The PCI address of a device, and its position.
fn place(node: Node<'_, '_>, host: u8, cpu: u32) -> Result<(String, Place), Error> {
    if node.ancestors().nth(MOST_LEVELS).is_some() {
        return Err(Error(format!("more than {MOST_LEVELS} elements around a device")));
    }
    let buses = node.ancestors().skip(1).filter(|node| node.has_tag_name("pci"));
    let mut buses: Vec<String> = buses.map(|node| node.attribute("busid").unwrap_or_default().to_owned()).collect();
    buses.reverse();
    let own = buses.pop().unwrap_or_default();
    Ok((own, Place { host, cpu, bridges: buses }))
}

fn gpu(node: Node<'_, '_>, host: u8, cpu: u32) -> Result<Gpu, Error> {
    let (pci, place) = place(node, host, cpu)?;
    let links = node.children().filter(|node| node.has_tag_name("nvlink"));
    let links = links.filter_map(|node| u32::try_from(number(node, "count")?).ok());
    Ok(Gpu {
        dev: device(node, host)?,
        rank: needed(node, "rank")?,
        pci,
        capability: needed(node, "sm").unwrap_or(0),
        gdr: is_set(node, "gdr"),
        nvlinks: links.fold(0, u32::saturating_add),
        place,
    })
}

/// Reads a network interface; `None` for a device of another kind, such as one that only GPUs drive.
fn nic(node: Node<'_, '_>, host: u8, cpu: u32) -> Result<Option<Nic>, Error> {
    if node.attribute("net") == Some("0") || node.attribute("dev").is_none() {
        return Ok(None);
    }
    let (pci, place) = place(node, host, cpu)?;
    Ok(Some(Nic {
        dev: device(node, host)?,
        name: node.attribute("name").unwrap_or_default().to_owned(),
        // Some drivers state a speed of -1.
        speed_mbps: number(node, "speed").filter(|speed| *speed > 0),
        guid: number(node, "guid").filter(|guid| *guid > 0),
        port: needed(node, "port").unwrap_or(0),
        gdr: is_set(node, "gdr"),
        pci,
        place,
    }))
}

impl Place {
    /// How far apart two devices are on the PCI bus; `None` if they are on different hosts.
    pub fn path(&self, other: &Self) -> Option<PathType> {
        if self.host != other.host {
            return None;
        }
        if self.cpu != other.cpu {
            return Some(PathType::Sys);
        }
        let common = self.bridges.iter().zip(&other.bridges).take_while(|(one, other)| one == other).count();
        Some(match common {
            0 => PathType::Phb,
            _ if common == self.bridges.len() && common == other.bridges.len() => PathType::Pix,
            _ => PathType::Pxb,
        })
    }
}

macro_rules! named {
    ($(#[doc = $doc:literal] $type:ident { $(#[doc = $of:literal] $name:ident $number:literal $text:literal;)+ })+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $(#[doc = $of] $name,)+
        }

        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name in archives.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// NCCL's number.
            pub const fn number(self) -> u32 {
                match self { $(Self::$name => $number,)+ }
            }

            /// The value with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    )+};
}

named! {
    /// What a graph is for.
    GraphKind {
        /// Rings.
        Ring 0 "RING";
        /// Trees.
        Tree 1 "TREE";
        /// Chains to a network that reduces.
        CollNetChain 2 "COLLNET_CHAIN";
        /// Switches of NVLink that reduce.
        Nvls 3 "NVLS";
        /// A network that reduces, reached from all GPUs.
        CollNetDirect 4 "COLLNET_DIRECT";
    }

    /// An algorithm of collectives.
    Algorithm {
        /// Trees.
        Tree 0 "TREE";
        /// Rings.
        Ring 1 "RING";
        /// A network that reduces, reached from all GPUs.
        CollNetDirect 2 "COLLNET_DIRECT";
        /// A network that reduces, reached by chains.
        CollNetChain 3 "COLLNET_CHAIN";
        /// Switches of NVLink that reduce.
        Nvls 4 "NVLS";
        /// Switches of NVLink within hosts, and trees between hosts.
        NvlsTree 5 "NVLS_TREE";
        /// Parallel aggregated trees.
        Pat 6 "PAT";
    }

    /// A protocol, by which data and flags are written.
    Protocol {
        /// Four bytes of data, four of a flag.
        Ll 0 "LL";
        /// 120 bytes of data, eight of a flag.
        Ll128 1 "LL128";
        /// Data, then one flag.
        Simple 2 "SIMPLE";
    }

    /// The kind of path between two devices, in order from near to far.
    PathType {
        /// The device itself.
        Loc 0 "LOC";
        /// NVLink.
        Nvl 1 "NVL";
        /// NVLink through another GPU.
        Nvb 2 "NVB";
        /// NVLink between GPU and processor.
        C2c 3 "C2C";
        /// One PCI bridge.
        Pix 4 "PIX";
        /// Several PCI bridges.
        Pxb 5 "PXB";
        /// The processor, reached by NVLink, then its PCI bus.
        P2c 6 "P2C";
        /// The network interface of another GPU, reached by NVLink.
        Pxn 7 "PXN";
        /// The PCI bridge of a processor.
        Phb 8 "PHB";
        /// The connection between processors.
        Sys 9 "SYS";
        /// The network.
        Net 10 "NET";
        /// None.
        Dis 11 "DIS";
    }
}

impl Algorithm {
    /// The graph that the algorithm uses.
    pub const fn graph(self) -> GraphKind {
        match self {
            Self::Ring | Self::Pat => GraphKind::Ring,
            Self::Tree => GraphKind::Tree,
            Self::CollNetDirect => GraphKind::CollNetDirect,
            Self::CollNetChain => GraphKind::CollNetChain,
            Self::Nvls | Self::NvlsTree => GraphKind::Nvls,
        }
    }
}

/// Limit on the elements of a file. NCCL's own is 256 per rank, and one file may have all ranks of a rack.
const MOST_NODES: u32 = 40_000;
/// Limit on the attributes of an element, which the parser compares with each other. NCCL's own is 16.
const MOST_ATTRIBUTES: usize = 64;

/// Why a text is not a dump of NCCL's. A dump is XML whose elements have attributes, but no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Parses a dump whose outermost element is `root`.
pub(crate) fn parse<'a>(text: &'a str, root: &str) -> Result<Document<'a>, Error> {
    refuse_costly(text)?;
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| Error(error.to_string()))?;
    let found = document.root_element().tag_name().name();
    if found == root { Ok(document) } else { Err(Error(format!("the outermost element is <{found}>, not <{root}>"))) }
}

/// Rejects namespaces and elements with many attributes: NCCL never writes them, and the parser takes more than linear
/// time for them.
fn refuse_costly(text: &str) -> Result<(), Error> {
    if text.contains("xmlns") {
        return Err(Error("it declares an XML namespace".to_owned()));
    }
    // XML does not allow `<` inside a tag, not even in a value, so each piece has at most one tag.
    let mut tags = text.split('<').filter(|tag| !tag.starts_with('!'));
    if tags.any(|tag| tag.bytes().filter(|byte| *byte == b'=').count() > MOST_ATTRIBUTES) {
        Err(Error(format!("an element has more than {MOST_ATTRIBUTES} attributes")))
    } else {
        Ok(())
    }
}

/// A number as NCCL writes it: decimal, or hexadecimal with `0x`.
pub(crate) fn number(node: Node<'_, '_>, name: &str) -> Option<u64> {
    let text = node.attribute(name)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A required number. Fails if it is missing or does not fit the type.
pub(crate) fn needed<T: TryFrom<u64>>(node: Node<'_, '_>, name: &str) -> Result<T, Error> {
    let value = number(node, name).and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| Error(format!("<{}> has no {name}", node.tag_name().name())))
}

pub(crate) fn is_set(node: Node<'_, '_>, name: &str) -> bool {
    number(node, name).is_some_and(|value| value != 0)
}

/// The network interface of a channel in one direction: a line of the property `NCCL::CHANNEL_NICS`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct ChannelNic {
    pub channel: u32,
    pub is_send: bool,
    /// NCCL's name for the path between GPU and interface, such as `PIX`; empty if unknown.
    pub path: String,
    pub nic: String,
}

impl fmt::Display for ChannelNic {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.is_send { "send" } else { "receive" };
        let path = if self.path.is_empty() { "-" } else { &self.path };
        write!(to, "{} {direction} {path} {}", self.channel, self.nic)
    }
}

impl ChannelNic {
    /// `None` for any other text.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next();
        let channel = word()?.parse().ok()?;
        let is_send = match word()? {
            "send" => true,
            "receive" => false,
            _ => return None,
        };
        let path = Some(word()?).filter(|path| *path != "-").unwrap_or_default().to_owned();
        Some(Self { channel, is_send, path, nic: word()?.to_owned() })
    }
}

#[cfg(test)]
mod tests;
