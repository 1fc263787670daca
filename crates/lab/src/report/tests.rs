//! All figures here are invented: they test the page, and say nothing of any scheduler.

use std::collections::BTreeMap;

use appease_scenario::{Load, Machine, Metric, Mode, Outcome, Report, Run, Summary};
use insta::assert_snapshot;

use super::{Picture, axis::Axis, names, read, write_html, write_html_with};

fn summary(samples: &[f64]) -> anyhow::Result<Metric> {
    Ok(Metric::Distribution(Summary::of(samples).ok_or_else(|| anyhow::anyhow!("no samples"))?))
}

fn run(scheduler: &str, load: Load, metrics: BTreeMap<String, Metric>) -> Run {
    Run {
        scheduler: scheduler.into(),
        load,
        kernel: "1.2.3-test".into(),
        machine: Machine::plain(Mode::Exact, 1),
        outcome: Outcome::Ok,
        detail: String::new(),
        metrics,
    }
}

/// Two schedulers, two loads, a distribution and a single figure; one run ejected.
fn sample() -> anyhow::Result<Report> {
    let metrics = |keys: &[f64], dropped| -> anyhow::Result<_> {
        Ok(BTreeMap::from([
            ("key_to_screen_ms".to_owned(), summary(keys)?),
            ("video_dropped_pct".to_owned(), Metric::Scalar { value: dropped }),
            ("load_process_gap_ms".to_owned(), summary(&[10.0, 20.0])?),
        ]))
    };
    let mut ejected = run("scx_test", Load::Hogs(16), BTreeMap::new());
    ejected.outcome = Outcome::Evicted;
    ejected.detail = "runnable task stall <b>\nconsole".into();
    Ok(Report {
        scenario: "invented".into(),
        runs: vec![
            run("appease", Load::Hogs(16), metrics(&[0.2, 0.21, 0.25], 0.0)?),
            run("appease", Load::None, metrics(&[0.2, 0.2, 0.2], 0.0)?),
            run("eevdf", Load::Hogs(16), metrics(&[1.0, 2.0, 10.0], 40.0)?),
            run("eevdf", Load::None, metrics(&[0.2, 0.2, 0.25], 0.0)?),
            ejected,
        ],
    })
}

fn page(reports: &[Report]) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("new/report.html");
    write_html(reports, &out)?;
    let left: Vec<_> = std::fs::read_dir(folder.path().join("new"))?.collect::<Result<_, _>>()?;
    assert_eq!(left.len(), 1, "nothing but the report is left");
    Ok(std::fs::read_to_string(out)?)
}

/// The figures of the table rows of `scheduler`.
fn cells<'a>(page: &'a str, scheduler: &str) -> Vec<Vec<&'a str>> {
    let rows = page.split("<tr").skip(1).filter(|row| row.contains(&format!("</span>{scheduler}</td>")));
    rows.map(|row| {
        let figures = row.split("<td").skip(3);
        figures.filter_map(|cell| cell.split('>').nth(1)?.split('<').next()).collect()
    })
    .collect()
}

#[test]
fn the_page_needs_nothing_else() -> anyhow::Result<()> {
    let page = page(&[sample()?])?;
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    let without_namespaces = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!without_namespaces.contains(outside), "the page refers to {outside}");
    }
    Ok(())
}

#[test]
fn stand_in_colours_are_all_replaced() -> anyhow::Result<()> {
    let page = page(&[sample()?])?;
    let svg: String = page.split("<svg").skip(1).filter_map(|svg| svg.split("</svg>").next()).collect();
    assert!(svg.contains("var(--s0)") && svg.contains("var(--s1)") && svg.contains("var(--grid)"));
    assert!(!svg.contains("\"#01"), "a stand-in colour is left");
    Ok(())
}

#[test]
fn ratios_are_to_the_own_unloaded_figure_and_to_eevdf() -> anyhow::Result<()> {
    let page = page(&[sample()?])?;
    let rows = cells(&page, "appease");
    let shown: Vec<String> = rows.iter().take(2).map(|row| row.join(" | ")).collect();
    assert_snapshot!(shown.join("\n"), @r"
    3 | 0.20 | 0.20 | 0.20 | 0.20 | 0.20 | 1.00 × | 1.00 × | 1.00 × | 1.00 × | 0.80 × | 0.80 ×
    3 | 0.20 | 0.21 | 0.25 | 0.25 | 0.25 | 1.05 × | 1.25 × | 1.25 × | 0.10 × | 0.025 × | 0.025 ×
    ");
    Ok(())
}

#[test]
fn an_ejected_scheduler_is_named_with_its_reason_and_escaped() -> anyhow::Result<()> {
    let page = page(&[sample()?])?;
    assert!(page.contains("1 of 5 runs did not end well"));
    assert!(page.contains("ejected by the kernel"));
    assert!(page.contains("runnable task stall &lt;b&gt;") && !page.contains("<b>"));
    Ok(())
}

#[test]
fn what_the_background_got_comes_last() -> anyhow::Result<()> {
    let page = page(&[sample()?])?;
    let place = |text: &str| page.find(text).ok_or_else(|| anyhow::anyhow!("{text} is missing"));
    assert!(place("Video frames dropped")? < place("What the background work got")?);
    assert!(["load_ms", "load_unanswered"].iter().all(|line| !names::is_cost(line)), "what a user typed is no load");
    assert!(place("What the background work got")? < place("Longest wait for CPU of each process of the load")?);
    Ok(())
}

/// Two parts, alone under two schedulers, and at once under those, a mix and one that was never alone.
fn parts() -> anyhow::Result<Report> {
    let alone = |keys: &[f64], loops: &[f64]| -> anyhow::Result<_> {
        Ok(BTreeMap::from([
            ("typing_ms".to_owned(), summary(keys)?),
            ("compute_ms".to_owned(), summary(loops)?),
            ("typing_completed".to_owned(), Metric::Scalar { value: 2.0 }),
            ("compute_completed".to_owned(), Metric::Scalar { value: 2.0 }),
        ]))
    };
    let beside = |keys: &[f64], loops: &[f64]| -> anyhow::Result<_> {
        let mut metrics = alone(keys, loops)?;
        metrics.insert("compute_left_cpu_pct".into(), Metric::Scalar { value: 50.0 });
        Ok(metrics)
    };
    let mut locked = beside(&[1.0], &[300.0, 500.0])?;
    locked.remove("typing_ms");
    locked.insert("typing_completed".into(), Metric::Scalar { value: 0.0 });
    let mut failed = run("scx_test", Load::All, BTreeMap::new());
    failed.outcome = Outcome::Failed;
    failed.detail = "no result".into();
    Ok(Report {
        scenario: "invented".into(),
        runs: vec![
            run("eevdf", Load::None, alone(&[1.0, 3.0], &[100.0, 102.0])?),
            run("eevdf", Load::All, beside(&[4.0, 8.0], &[200.0, 210.0])?),
            run("eevdf+fifo", Load::All, locked),
            run("appease", Load::None, alone(&[2.0, 4.0], &[100.0, 102.0])?),
            run("appease", Load::All, beside(&[2.0, 4.0], &[202.0, 204.0])?),
            failed,
        ],
    })
}

/// The figures of a contour's table, a line for each row.
fn contour_rows(page: &str) -> String {
    let table = page.split("× alone</th>").last().and_then(|rest| rest.split("</table>").next()).unwrap_or_default();
    let body = table.split("<tbody>").nth(1).unwrap_or_default();
    let text =
        |cell: &str| cell.split('>').nth(1).and_then(|text| text.split('<').next()).unwrap_or_default().to_owned();
    let rows = body.split("<tr").skip(1).map(|row| row.split("<td").skip(1).map(text).collect::<Vec<_>>().join(" | "));
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn parts_are_compared_with_themselves_alone_and_mixes_with_their_scheduler() -> anyhow::Result<()> {
    let page = page(&[parts()?])?;
    assert_snapshot!(contour_rows(&page), @r"
    EEVDF | 2 | 6.00 | 2.83 | 3.00 × | 2.00 × | 2 | 205 | 7.07 | 2.03 × | 5.00 × | 202 | 1.01 ×
    EEVDF + fifo | completed nothing: the machine did not answer | 2 | 400 | 141 | 3.96 × | 100 × | 202 | 1.98 ×
    scx_test | failed | failed
    appease | 2 | 3.00 | 1.41 | 1.00 × | 1.00 × | 2 | 203 | 1.41 | 2.01 × | 1.00 × | 202 | 1.00 ×
    ");
    Ok(())
}

#[test]
fn a_contour_says_what_did_not_answer() -> anyhow::Result<()> {
    let page = page(&[parts()?])?;
    let captions = page.split("<figcaption>").filter_map(|rest| rest.split("</figcaption>").next());
    let captions =
        captions.filter(|caption| caption.contains("typing:")).map(|caption| caption.replace(['<', '>'], " "));
    assert_snapshot!(captions.collect::<Vec<_>>().join("\n"), @r"
    EEVDF + fifo  span typing: completed nothing: the machine did not answer /span 
    scx_test  span typing: failed · compute: failed /span
    ");
    let contour = page.split("value contour of EEVDF\"").nth(1).and_then(|rest| rest.split("</svg>").next());
    let figures = contour
        .unwrap_or_default()
        .split("<text")
        .skip(1)
        .filter_map(|text| text.split('\n').nth(1)?.split('<').next());
    assert_snapshot!(figures.collect::<Vec<_>>().join(" "), @"0 % 50 % 100 % typing mean 33.3 sd 50 compute mean 49.3 sd 20");
    assert!(!self::page(&[sample()?])?.contains("Value contours"), "a scenario without parts has none");
    Ok(())
}

#[test]
fn kernels_are_never_mixed_and_repeats_never_hidden() -> anyhow::Result<()> {
    let mut other = sample()?;
    for run in &mut other.runs {
        run.kernel = "4.5.6-test".into();
    }
    let page = page(&[sample()?, other, sample()?])?;
    assert_eq!(page.matches("<h2").count(), 2);
    assert!(page.contains("EEVDF (taken again, 2)"));
    Ok(())
}

#[test]
fn files_of_a_wrong_form_are_refused_by_name() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> anyhow::Result<_> {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    };
    let good = file("good.json", &serde_json::to_string(&sample()?)?)?;
    assert_eq!(read(std::slice::from_ref(&good))?, vec![sample()?]);
    let several = file("several.json", &serde_json::to_string(&[sample()?, sample()?])?)?;
    assert_eq!(read(&[several, good.clone()])?.len(), 3);
    let bad = [
        file("text.json", "no json")?,
        file("key.json", r#"{"scenario": "x", "runs": [{"scheduler": 7}]}"#)?,
        file("empty.json", r#"{"scenario": "x", "runs": []}"#)?,
        file("none.json", "[]")?,
        folder.path().join("absent.json"),
    ];
    let errors: Vec<String> = bad
        .into_iter()
        .filter_map(|path| read(&[good.clone(), path]).err())
        .map(|error| format!("{error:#}").replace(&folder.path().display().to_string(), ""))
        .collect();
    assert_snapshot!(errors.join("\n"), @r"
    /text.json is no result document of `appease-lab run … --json`: expected ident at line 1 column 2
    /key.json is no result document of `appease-lab run … --json`: invalid type: integer `7`, expected a string at line 1 column 42
    /empty.json holds no run: nothing to report
    /none.json holds no run: nothing to report
    read result file /absent.json: No such file or directory (os error 2)
    ");
    Ok(())
}

#[test]
fn pictures_are_inside_the_page() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("report.html");
    for (png, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
        let picture = Picture { caption: "a screen".into(), png: png.into() };
        write_html_with(&[sample()?], &[picture], &out)?;
        let page = std::fs::read_to_string(&out)?;
        assert!(page.contains(&format!("src=\"data:image/png;base64,{encoded}\"")), "{png}");
    }
    Ok(())
}

#[test]
fn nothing_to_report_leaves_no_file() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("report.html");
    assert!(write_html(&[], &out).is_err());
    assert!(!out.exists());
    Ok(())
}

#[test]
fn figures_keep_about_three_digits() {
    let shown: Vec<String> =
        [0.0, 0.00123, 0.1834, 2.884, 38.96, 166.4, 2884.4, 1_234_567.0, -2.5, f64::NAN].map(names::figure).to_vec();
    assert_snapshot!(shown.join(" "), @"0 0.0012 0.18 2.88 39.0 166 2,884 1,234,567 −2.50 –");
}

#[test]
fn scales_hold_their_values() {
    for values in [vec![0.18, 7.8], vec![166.0, 2886.0], vec![38.0, 42.0], vec![5.0], vec![0.0, 0.0], vec![]] {
        for from_zero in [false, true] {
            let axis = Axis::of(values.iter().copied(), from_zero);
            let places: Vec<f64> = values.iter().map(|value| axis.place(*value)).collect();
            assert!(places.iter().all(|place| (0.0..=1.0).contains(place)), "{values:?}: {places:?}");
            assert!(places.windows(2).all(|two| values[0] == values[1] || two[0] < two[1]), "{values:?}: {places:?}");
            assert!(axis.ticks().len() >= 2, "{values:?}");
        }
    }
}
