//! The rights a role needs, and what it hears without them.

use lease_core::{ErrorKind, LeaseStore};

use crate::common::role;
use crate::support::{LONG, Sandbox, is_harmless, new_claim, take};

#[tokio::test]
async fn each_right_that_is_lacking_is_named_by_check() {
    let sandbox = Sandbox::new().await;
    let role = role(&sandbox.url, "").await;
    let store = sandbox.options().open(&role.url).unwrap();
    for right in ["SELECT", "INSERT", "UPDATE"] {
        sandbox.run(&format!("GRANT SELECT, INSERT, UPDATE ON leases TO {}", role.name)).await;
        store.check().await.unwrap();
        sandbox.run(&format!("REVOKE {right} ON leases FROM {}", role.name)).await;
        let error = is_harmless(store.check().await, ErrorKind::Denied);
        let says = format!("the role lacks rights; GRANT {right} ON public.{}", sandbox.table);
        assert_eq!(error.to_string(), says);
        let error = is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Denied);
        assert!(error.to_string().contains("42501") && !format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_schema_of_ones_own_carries_leases_and_has_to_be_there() {
    let sandbox = Sandbox::without_table(&crate::common::shared());
    let schema = crate::common::unique("lease_schema");
    let options = sandbox.options().schema(&schema).unwrap();
    let store = options.clone().open(&sandbox.url).unwrap();
    assert!(
        store.describe().ends_with(&format!("(table {schema}.{})", sandbox.table)),
        "{}",
        store.describe()
    );
    let error = is_harmless(store.migrate().await, ErrorKind::Schema);
    assert!(error.to_string().contains("the schema is missing; create it"), "{error}");
    sandbox.run(&format!("CREATE SCHEMA {schema}")).await;
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    take(&store, "a").await;
    let role = role(&sandbox.url, "").await;
    sandbox.run(&format!("GRANT SELECT, INSERT, UPDATE ON {schema}.leases TO {}", role.name)).await;
    let least = options.open(&role.url).unwrap();
    let error = is_harmless(least.check().await, ErrorKind::Denied);
    assert!(error.to_string().ends_with(&format!("GRANT USAGE ON SCHEMA {schema}")), "{error}");
    sandbox.run(&format!("GRANT USAGE ON SCHEMA {schema} TO {}", role.name)).await;
    least.check().await.unwrap();
    // A table that is whole is left alone, whoever asks.
    least.migrate().await.unwrap();
    // The default schema has no table of that name.
    is_harmless(sandbox.store().check().await, ErrorKind::Schema);
}
