//! Files written by hand from the format: a host with two sockets, four GPUs on NVLink and two network interfaces.

use crate::{Graph, GraphKind, PathType, System};

const SYSTEM: &str = include_str!("../../../tests/data/nccl-system.xml");
const GRAPHS: &str = include_str!("../../../tests/data/nccl-graphs.xml");

fn system() -> System {
    System::parse(SYSTEM).expect("a system")
}

fn graphs() -> Vec<Graph> {
    Graph::parse_all(GRAPHS, &system()).expect("graphs")
}

#[test]
fn a_system_has_gpus_and_interfaces_with_their_places() {
    let system = system();
    let gpus: Vec<_> = system.gpus.iter().map(|gpu| (gpu.rank, gpu.pci.as_str(), gpu.nvlinks, gpu.gdr)).collect();
    assert_eq!(gpus[0], (4, "0000:11:00.0", 18, true));
    assert_eq!(gpus[1], (5, "0000:20:00.0", 0, true));
    let nics: Vec<_> =
        system.nics.iter().map(|nic| (nic.name.as_str(), nic.dev, nic.speed_mbps, nic.pci.as_str())).collect();
    let expected = [
        ("mlx5_0", 0, Some(400_000), "0000:12:00.0"),
        ("eth0", 2, None, ""),
        ("mlx5_1", 1, Some(200_000), "0000:84:00.0"),
    ];
    assert_eq!(nics, expected);
    let path = |gpu: usize, nic: usize| system.gpus[gpu].place.path(&system.nics[nic].place).expect("one host");
    assert_eq!([path(0, 0), path(1, 0), path(2, 0)], [PathType::Pix, PathType::Phb, PathType::Sys]);
    assert_eq!([path(2, 2), path(3, 2), path(0, 1)], [PathType::Pxb, PathType::Pix, PathType::Phb]);
}

#[test]
fn hosts_of_one_file_keep_their_devices_apart() {
    let text = SYSTEM.replacen("host_hash=\"0x1f\" numaid=\"1\"", "host_hash=\"0x2f\" numaid=\"1\"", 1);
    let system = System::parse(&text).expect("two hosts");
    assert_eq!(system.nic(1 << 56 | 1).map(|nic| nic.name.as_str()), Some("mlx5_1"));
    assert_eq!(system.gpus[0].place.path(&system.nics[2].place), None);
}

#[test]
fn a_rank_uses_the_interface_at_its_end_of_the_channel() {
    let graphs = graphs();
    let [ring, nvls] = graphs.as_slice() else { panic!("{graphs:?}") };
    assert_eq!((ring.kind, ring.speed_inter, ring.type_inter), (GraphKind::Ring, 24.5, Some(PathType::Pxb)));
    assert_eq!(ring.channels[0].ranks, [4, 5, 6, 7], "a GPU without a rank has that of its device");
    assert_eq!([ring.nic(4, 0), ring.nic(7, 0), ring.nic(7, 1), ring.nic(3, 0)], [Some(0), Some(1), Some(1), None]);
    assert_eq!(ring.nic(7, 3), Some(1), "channels repeat");
    assert_eq!((ring.ranks(), ring.has_network()), (vec![4, 5, 6, 7], true));
    assert_eq!((nvls.nic(7, 5), nvls.nic(4, 0), nvls.channels[0].net_out), (Some(1), None, None));
    assert_eq!(nvls.type_inter, None, "a name of a later release");
}

#[test]
fn graphs_are_themselves_again_as_text() {
    for graph in graphs() {
        assert_eq!(graph.to_string().parse::<Graph>().as_ref(), Ok(&graph), "{graph}");
    }
    assert_eq!(
        graphs()[0].to_string().split(" channel").next(),
        Some("id=RING pattern=4 intra=24:NVL inter=24.5:PXB latency=0")
    );
    for bad in [
        "",
        "id=RING",
        "id=RING pattern=4 intra=x:NVL inter=1:PIX latency=0",
        "id=RING pattern=4 intra=1:NVL inter=1:PIX latency=0 channel=0:a:0",
    ] {
        assert!(bad.parse::<Graph>().is_err(), "{bad}");
    }
}

#[test]
fn what_is_cut_or_hostile_is_an_error() {
    for at in (0..SYSTEM.len() - 1).step_by(7) {
        assert!(System::parse(&SYSTEM[..at]).is_err(), "cut at {at}");
    }
    for at in (0..GRAPHS.len() - 1).step_by(7) {
        assert!(Graph::parse_all(&GRAPHS[..at], &system()).is_err(), "cut at {at}");
    }
    let deep = format!(
        "<system><cpu>{}<gpu dev=\"0\" rank=\"0\"/>{}</cpu></system>",
        "<pci>".repeat(9000),
        "</pci>".repeat(9000)
    );
    let wide = format!("<system>{}</system>", "<cpu/>".repeat(50_000));
    let attributes: String = (0..100).map(|number| format!(" a{number}='1'")).collect();
    let attributes = format!("<system><cpu{attributes}/></system>");
    let namespaces = "<system><a xmlns:a=\"b\"/></system>";
    let around = format!("<system><cpu>{}{}</cpu></system>", "<gpu dev='0' rank='0'>".repeat(99), "</gpu>".repeat(99));
    let many = format!("<system><cpu>{}</cpu></system>", "<gpu dev='0' rank='0'/>".repeat(5000));
    let entities = "<!DOCTYPE system [<!ENTITY a \"aaaa\">]><system/>";
    let without_number = "<system><cpu><gpu rank=\"0\"/></cpu></system>";
    let foreign = [namespaces, entities, "<graphs/>", "", without_number];
    for hostile in [deep.as_str(), &wide, &attributes, &around, &many].into_iter().chain(foreign) {
        assert!(System::parse(hostile).is_err(), "{:.60}", hostile);
    }
    let foreign = "<graphs><graph id=\"0\" pattern=\"4\" speedintra=\"inf\" speedinter=\"1\"/></graphs>";
    assert!(Graph::parse_all(foreign, &System::default()).is_err());
}
