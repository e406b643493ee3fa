//! In which order crates are published: each behind those that its package names.

use serde_json::Value;

use crate::step::Failure;

/// The published crates of this answer of `cargo metadata` in order, by name where either may be first.
pub(super) fn of(metadata: &Value) -> Result<Vec<String>, Failure> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // `publish = false` reads as: to none of the registries.
    let mut left: Vec<&Value> =
        packages.filter(|package| package["publish"].as_array().is_none_or(|to| !to.is_empty())).collect();
    left.sort_by_key(|package| name(package).to_owned());
    let published: Vec<&str> = left.iter().map(|package| name(package)).collect();
    let mut order: Vec<String> = Vec::new();
    while !left.is_empty() {
        let mut next = None;
        for (index, package) in left.iter().enumerate() {
            let needs = needs(package);
            if let Some(missing) = needs.iter().find(|need| !published.contains(need)) {
                let message = format!("{} needs {missing}, which is not published", name(package));
                return Err(Failure::new(message));
            }
            if needs.iter().all(|need| order.iter().any(|placed| placed == need)) {
                next = Some(index);
                break;
            }
        }
        let Some(next) = next else {
            let names: Vec<&str> = left.iter().map(|package| name(package)).collect();
            return Err(Failure::new(format!("none of these can be published first: {}", names.join(", "))));
        };
        order.push(name(left.remove(next)).to_owned());
    }
    if order.is_empty() {
        return Err(Failure::new("no crate of the workspace is published"));
    }
    Ok(order)
}

/// The crates beside it that the package will name. Cargo leaves out what tests need by its path alone.
fn needs(package: &Value) -> Vec<&str> {
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let ours = dependencies.filter(|dependency| dependency["path"].is_string());
    let named = ours.filter(|dependency| dependency["kind"] != "dev" || dependency["req"] != "*");
    named.map(name).collect()
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[(&str, &str, &str)]) -> Value {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|(name, kind, req)| json!({ "name": name, "kind": kind, "req": req, "path": name }))
            .collect();
        json!({ "name": name, "publish": null, "dependencies": dependencies })
    }

    fn order(packages: &[Value]) -> Result<Vec<String>, String> {
        of(&json!({ "packages": packages })).map_err(|failure| failure.message)
    }

    #[test]
    fn each_crate_comes_behind_those_it_needs_also_for_tests() {
        let packages = [
            package("a", &[("b", "normal", "^1"), ("c", "dev", "^1")]),
            package("b", &[]),
            package("c", &[("b", "build", "^1")]),
        ];
        assert_eq!(order(&packages).unwrap(), ["b", "c", "a"]);
    }

    #[test]
    fn what_tests_need_by_its_path_alone_is_no_cycle_and_need_not_be_published() {
        let packages = [
            package("a", &[("b", "dev", "*"), ("kept", "dev", "*")]),
            package("b", &[("a", "normal", "^1")]),
            json!({ "name": "kept", "publish": [], "dependencies": [] }),
        ];
        assert_eq!(order(&packages).unwrap(), ["a", "b"]);
    }

    #[test]
    fn a_cycle_and_a_need_that_is_not_published_are_said() {
        let cycle = [package("a", &[("b", "dev", "^1")]), package("b", &[("a", "normal", "^1")])];
        assert_eq!(order(&cycle).unwrap_err(), "none of these can be published first: a, b");
        let kept = [
            package("a", &[("kept", "normal", "*")]),
            json!({ "name": "kept", "publish": [], "dependencies": [] }),
        ];
        assert_eq!(order(&kept).unwrap_err(), "a needs kept, which is not published");
        assert!(order(&[]).is_err());
    }
}
