import java.util.regex.Pattern;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/** Runs each argument as a statement of Flink SQL, as `bin/sql-client.sh -f` does, in this one process. It goes on until the
 * job of the last statement ends. */
class RunStatements {
    private static final Pattern SET = Pattern.compile("SET '(.*)' = '(.*)'");

    public static void main(String[] statements) throws Exception {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        TableResult last = null;
        for (String statement : statements) {
            var setting = SET.matcher(statement);
            if (setting.matches()) {
                tables.getConfig().set(setting.group(1), setting.group(2));
            } else {
                last = tables.executeSql(statement);
            }
        }
        last.await();
    }
}
