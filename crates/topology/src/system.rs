//! The PCI tree of a host, with its GPUs and network interfaces.

use roxmltree::Node;

use crate::names::PathType;
use crate::xml::{Error, is_set, needed, number, parse};

/// Elements around a device. NCCL writes at most a dozen.
const MOST_LEVELS: usize = 64;
/// GPUs or interfaces. The largest domains of NVLink have 576 GPUs; for each one others are looked through.
const MOST_DEVICES: usize = 4096;
/// The high byte of NCCL's device numbers is the number of the host in the file.
const HOST_SHIFT: u32 = 56;

/// The GPUs and network interfaces of a host, as one communicator sees them: only its own GPUs are here. The file of a
/// communicator over NVLink between hosts has all these hosts.
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
    /// Where it is.
    pub place: Place,
}

/// A network interface, or a port of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// NCCL's number of the device, with the host's in its high byte.
    pub dev: u64,
    /// Its name, as `mlx5_0` or `eth0`.
    pub name: String,
    /// In Mbit/s, if its driver knows.
    pub speed_mbps: Option<u64>,
    /// GUID of the hardware; ports of one card share it. `None` if it has none.
    pub guid: Option<u64>,
    /// Number of the port.
    pub port: u32,
    /// Whether it can reach the memory of GPUs.
    pub gdr: bool,
    /// Address on the PCI bus; empty if it is virtual.
    pub pci: String,
    /// Where it is.
    pub place: Place,
}

/// The way from a processor to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the host in the file.
    pub host: u8,
    /// Number of the processor, or NUMA domain, in the file.
    pub cpu: u32,
    /// Addresses of the PCI bridges between, outermost first.
    pub bridges: Vec<String>,
}

impl System {
    /// Reads the file that `NCCL_TOPO_DUMP_FILE` names.
    ///
    /// # Errors
    /// If the text is not XML, or not such a file.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let document = parse(text, "system")?;
        let mut system = Self::default();
        // NCCL numbers hosts in the order of their processors.
        let mut hosts: Vec<Option<&str>> = Vec::new();
        for (number, cpu) in (0..).zip(document.root_element().children().filter(|it| it.has_tag_name("cpu"))) {
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

/// The device's own address, and where it is.
fn place(node: Node<'_, '_>, host: u8, cpu: u32) -> Result<(String, Place), Error> {
    if node.ancestors().nth(MOST_LEVELS).is_some() {
        return Err(Error(format!("more than {MOST_LEVELS} elements around a device")));
    }
    let buses = node.ancestors().skip(1).filter(|it| it.has_tag_name("pci"));
    let mut buses: Vec<String> = buses.map(|it| it.attribute("busid").unwrap_or_default().to_owned()).collect();
    buses.reverse();
    let own = buses.pop().unwrap_or_default();
    Ok((own, Place { host, cpu, bridges: buses }))
}

fn gpu(node: Node<'_, '_>, host: u8, cpu: u32) -> Result<Gpu, Error> {
    let (pci, place) = place(node, host, cpu)?;
    let links = node.children().filter(|it| it.has_tag_name("nvlink"));
    let links = links.filter_map(|it| u32::try_from(number(it, "count")?).ok());
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

/// `None` for a device of another kind, such as one that GPUs drive themselves.
fn nic(node: Node<'_, '_>, host: u8, cpu: u32) -> Result<Option<Nic>, Error> {
    if node.attribute("net") == Some("0") || node.attribute("dev").is_none() {
        return Ok(None);
    }
    let (pci, place) = place(node, host, cpu)?;
    Ok(Some(Nic {
        dev: device(node, host)?,
        name: node.attribute("name").unwrap_or_default().to_owned(),
        // Some drivers say -1.
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
