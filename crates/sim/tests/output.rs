//! What the command prints and writes.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, process::Command};

fn output(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_appease-sim")).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const ONE_HOG: &str = "name = \"tiny\"\ncpus = 1\nduration_s = 1\n[[hog]]\nid = \"hog\"\n\
    [[server]]\nid = \"web\"\nwork_ms = 5\n\
    [[customer]]\nid = \"one\"\nto = \"web\"\narrivals = { at_ms = [105, 305] }\n";

#[test]
fn results_are_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.toml");
    fs::write(&path, ONE_HOG).unwrap();
    let table = output(&["run", path.to_str().unwrap(), "--under", "rr,cas"]);
    let table: Vec<&str> = table.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(table.join("\n"), @r"
    tiny  (distributions: p50 / p99 / max)
     metric                                   rr                 cas
     events                                  105                 174
     hog_cpu_pct                           99.00               99.00
     hog_least_ms                            990                 990
     hog_wait_ms              0.00 / 0.00 / 0.00  0.00 / 0.00 / 0.00
     one_response_ms        5.00 / 10.00 / 10.00  5.00 / 5.00 / 5.00
     one_unanswered                         0.00                0.00
     one_unhappiness_ms       0.00 / 5.00 / 5.00  0.00 / 0.00 / 0.00
     system_unhappiness_ms                  0.04                0.00
     web_cpu_pct                            1.00                1.00
     web_least_ms                          10.00               10.00
     web_wait_ms              0.00 / 5.00 / 5.00  0.00 / 0.00 / 0.00
    ");
}

#[test]
fn results_are_a_document() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.toml");
    fs::write(&path, ONE_HOG).unwrap();
    let args = ["run", path.to_str().unwrap(), "--under", "rr,cas", "--seed", "3", "--json"];
    let document: serde_json::Value = serde_json::from_str(&output(&args)).unwrap();
    assert_eq!(document["scenario"], "tiny");
    let run = &document["runs"][0];
    assert_eq!((&run["scheduler"], &run["seed"], &run["machine"]["cpus"]), (&"rr".into(), &3.into(), &1.into()));
    assert_eq!(run["metrics"]["one_response_ms"]["n"], 2);
    // It comes in the middle of a quantum of 10 ms.
    assert_eq!(run["metrics"]["one_response_ms"]["max"].as_f64().unwrap().round(), 10.0);
    assert_eq!(document["runs"][1]["metrics"]["one_response_ms"]["max"].as_f64().unwrap().round(), 5.0);
    assert_eq!(output(&args), output(&args), "the same seed, the same document");
}

#[test]
fn the_analysis_is_a_page_and_its_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let written = output(&["analysis", "--out", dir.path().to_str().unwrap()]);
    let listed: BTreeSet<&str> = written.lines().filter_map(|line| line.rsplit('/').next()).collect();
    assert!(listed.contains("analysis.html") && listed.contains("analysis.json") && listed.contains("eq-23.svg"));
    let page = fs::read_to_string(dir.path().join("analysis.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), listed.len() - 2, "each picture is in the page");
    assert!(page.contains("Eq. 18") && !page.contains("NaN"));
}
